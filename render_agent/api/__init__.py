"""The Python interface: the names of `import render_agent`, for programs and notebooks, imported lazily.

Imports every room but `cli`. Start with `ask`, which starts runs, and `results`, which reads them.
"""
