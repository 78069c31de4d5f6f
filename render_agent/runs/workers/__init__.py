"""The same run dispatched to several processes or machines by Ray; one process writes the log.

It imports the scheduler's room and the run log; Ray is imported by `cluster` alone.
Start at `dispatch.dispatch`.
"""
