"""Learned verifier: an ensemble of contrastive heads over frozen image features. Start with `verifier.py`."""
