"""The command `train-verifier`: learns from run logs which moves were good. Start with `train.py`."""
