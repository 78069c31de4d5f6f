"""A run dispatched to several worker processes or machines by Ray; one process, the driver, writes the log.

Imports the controller and the run log; Ray itself is imported by `cluster` alone.
Start with `driver`, and its function `dispatch`.
"""
