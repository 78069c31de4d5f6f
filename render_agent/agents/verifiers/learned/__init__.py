"""A verifier that is learned: an ensemble of contrastive heads over frozen features of a view.

Holds the `verifier`, which scores moves with an `ensemble` of `network`s over what an `encoder` makes of a picture; what
trains one is in `render_agent_lab.verifier_training`. May import torch in `network`, `ensemble` and `checkpoint` only,
which are imported where they are needed. Start with `verifier`.
"""
