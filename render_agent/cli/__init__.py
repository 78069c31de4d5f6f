"""The command line, the only code that prints and exits. Start with `main.py`; `commands/` has the other commands."""
