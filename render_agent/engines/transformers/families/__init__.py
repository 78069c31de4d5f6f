"""Families of models: what is special about each stands in `registry`, how prompts and pictures become tensors beside it.

Imports nothing else of the engine. Start with `registry`.
"""
