"""The `train-verifier` command: learns from run logs which moves were good. Start with `train.py`."""
