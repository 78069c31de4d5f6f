"""A verifier that is learned: an ensemble of contrastive heads over frozen features of a view.

Holds the `verifier`, which scores moves with an `ensemble` of `network`s over what an `encoder` makes of a picture;
`verifier` is what `--verifier learned:DIR` names, and `verifier_training` makes one. It imports `render_agent`, and
torch in `network`, `ensemble` and `checkpoint` only. Start with `verifier`.
"""
