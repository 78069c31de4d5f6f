"""The laboratory of render_agent: what makes rooms, teaches models and measures the program.

A second package of this repository: it imports `render_agent`, which imports nothing of it. Its commands and policies
are entry points of setup.cfg, as those of any package are. Start with `bench`, `room_generator` or `expert`.
"""
