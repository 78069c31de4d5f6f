"""The Python interface: the names of `import render_agent`, imported lazily.

Start with `ask.py`, which starts runs, and `results.py`, which reads them.
"""
