"""Everything derived from run folders: diagnosis, HTML pages, exports, sweeps, scored predictions.

Start with `pages/build.py`, which writes a report.
"""
