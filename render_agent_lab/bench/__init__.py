"""The command `bench`: schedules and engines are measured side by side in one run on this machine.

It imports `render_agent`. Start with `command`, then read `measure`.
"""
