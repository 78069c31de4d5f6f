"""The command `bench`: schedules and engines measured side by side. Start with `command.py`, then `measure.py`."""
