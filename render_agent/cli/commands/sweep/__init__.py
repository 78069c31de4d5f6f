"""The command `sweep`: runs over all combinations of some options, and their one table.

Imports every room below `cli`. Start with `command`.
"""
