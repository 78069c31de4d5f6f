"""The Python interface: the public names of `render_agent`, imported lazily.

Start with `ask.py`, which starts runs, and `results.py`, which reads them.
"""
