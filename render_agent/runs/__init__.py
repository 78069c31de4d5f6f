"""Runs: how questions are asked, in two phases, and logged turn by turn; how runs are resumed and read.

Start with `turn.py`, one turn from the view to the log; then `phase_controller.py`, `scheduler.py` and `runner.py`. `read.py`
reads a run folder.
"""
