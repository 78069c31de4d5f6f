"""The laboratory of render_agent: what makes rooms, teaches models and measures the program.

A second package of this repository; imports `render_agent` freely and is imported by none of it: its commands and policies are
plugged in by entry points. Start with `room_generator`, `expert` or `bench`.
"""
