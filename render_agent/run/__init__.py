"""A run from its options to its results.

It imports the core; nothing of reports, exports or the command line. Start in `preflight.py`: what is checked,
recorded and compared before a run begins or goes on.
"""
