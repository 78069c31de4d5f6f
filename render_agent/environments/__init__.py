"""Environments for training: episodes of the same dialogues as in a run. Start with `environment.py`."""
