"""A verifier that is learned: an ensemble of contrastive heads over frozen features of a view.

`shape`, `history` and `example` are light; the other modules are torch, and are imported where it is
needed.
"""
