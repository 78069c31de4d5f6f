"""Measurements: `command.py` is the `bench` command; the other modules are programs that write a page of `results/`."""
