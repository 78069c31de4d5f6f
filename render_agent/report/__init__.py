"""Everything derived from run folders: diagnoses, HTML pages, exports, comparisons and scored predictions.

Start with `pages/build.py`, which writes a report.
"""
