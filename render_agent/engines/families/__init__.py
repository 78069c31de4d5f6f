"""Families of models: what is special about each, for whichever engine runs it.

Holds their table (`registry`), how each takes a picture (`pictures`) and how it thinks (`thinking`). Imports config,
errors and nothing of any engine. Start with `registry`.
"""
