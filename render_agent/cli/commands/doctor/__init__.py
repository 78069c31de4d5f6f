"""The command `doctor`: checks of this machine, and how to fix what is missing. Start with `command.py`."""
