"""The `bench` command: compares schedules and engines. Start with `command.py`, then `measure.py`."""
