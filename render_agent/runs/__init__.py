"""Carry out a run: its preflight checks, the two phases, the turn scheduler, and progress.

Imports everything that a turn is made of, from scenes to agents, and nothing that is made of run folders.
Start with `phase_controller`, and `runner` for how a run is started and resumed.
"""
