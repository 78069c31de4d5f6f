"""Plug-in package: generates rooms, trains verifiers, measures the program.

It imports `render_agent`, never the reverse; its commands and policies are entry points in setup.cfg. Start with
`room_generator`, `expert` or `bench`.
"""
