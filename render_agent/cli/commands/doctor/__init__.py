"""`doctor`: checks this machine and suggests fixes. Start with `command.py`."""
