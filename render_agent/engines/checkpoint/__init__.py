"""Checkpoints: the files of a model, found by name, checked, and loaded by transformers.

Start with `locate.py`, then `pretrained.py`.
"""
