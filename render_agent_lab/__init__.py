"""The laboratory of render_agent: what makes rooms, teaches models and measures the program.

A second package of this repository, which imports `render_agent` and is imported by none of it: its
commands and policies are plugged in as those of any package. Start with `room_generator`, `expert` or `bench`.
"""
