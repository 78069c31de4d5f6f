"""Plug-in package: generates rooms, trains verifiers, benchmarks the program.

It imports `render_agent`, never the reverse. Its commands and policies are entry points in setup.cfg. Start with
`room_generator`, `expert` or `bench`.
"""
