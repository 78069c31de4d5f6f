"""A run from its options to its results: runner, phase controller, scheduler, run folder, workers.

Imports everything below (`agents`, `engines`, `observation` …) and nothing that is made of run folders. Start with `runner`.
"""
