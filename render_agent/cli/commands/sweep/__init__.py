"""`sweep`: runs a grid of options and compares the runs. Start with `plan.py`, which reads the sweep file."""
