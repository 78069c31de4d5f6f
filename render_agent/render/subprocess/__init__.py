"""Renderers with native libraries, in a child process that may crash without the run.

Imports `render.base` and `system`. Start with `subprocess_renderer`.
"""
