"""Runs on several processes or machines by Ray; one process writes the log. Start with `driver.py`."""
