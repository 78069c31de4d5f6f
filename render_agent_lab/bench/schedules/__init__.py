"""Compares schedules and engines, for the `bench` command. Start with `measure.py`."""
