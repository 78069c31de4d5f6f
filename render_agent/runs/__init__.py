"""Runs: the two phases of a run, its turn-by-turn log, and how runs are resumed and read.

Start with `turn.py`, one turn from view to log; then `phase_controller.py`, `scheduler.py` and `runner.py`. `read.py`
reads a run folder.
"""
