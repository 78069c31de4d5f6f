"""Renderers: the protocol, the renderers behind it, and the kinds of view made from their frames.

Imports `questions`, `scene`, `geometry` and below. Start with `base`, the protocol, then `views`, what the
model is shown.
"""
