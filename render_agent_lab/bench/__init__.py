"""The command `bench`: schedules and engines measured side by side in one run on this machine.

Imports `render_agent`. Start with `command`, then `measure`.
"""
