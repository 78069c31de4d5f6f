"""Runs distributed over processes or machines with Ray; one process writes the log. Start with `driver.py`."""
