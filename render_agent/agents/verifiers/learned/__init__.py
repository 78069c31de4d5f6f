"""A verifier that is learned: an ensemble of contrastive heads over frozen features of a view.

`verifier` scores moves with an `ensemble` of `network`s over what an `encoder` makes of a picture; what trains one is
in `render_agent_lab.verifier_training`. `shape`, `history`, `features` and `card_file` are light; `network`,
`patch_attention`, `ensemble` and `card` import torch, and are imported where it is needed.
"""
