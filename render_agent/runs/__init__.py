"""Runs: the two phases in which questions are asked, the turn-by-turn log, and resuming and reading runs.

Start with `turn.py`, one turn from view to log; then `phase_controller.py`, `scheduler.py` and `runner.py`. `read.py` reads
a run folder.
"""
