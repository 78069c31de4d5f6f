"""A run under way: its phases, the scheduler of its turns, and the workers that it may be dispatched to.

It imports whatever a turn is made of, from scenes to agents, and nothing that is made of run folders.
Start at `phase_controller.PhaseController.run`.
"""
