"""What is made of run folders: diagnosis, pages, exports, sweeps, scored predictions.

Start with `pages/build.py`, which writes a report.
"""
