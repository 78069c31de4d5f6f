"""Symmetric contrastive loss between states and good moves."""

from __future__ import annotations

import math

import torch
from torch.func import vmap
from torch.nn import functional

from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.verifier_training.batches import Batch

MAX_LOG_SCALE = math.log(100)  # keeps the learned temperature above 0.01, for stability


def losses(ensemble: Ensemble, batch: Batch) -> torch.Tensor:
    """Return each member's loss over its batch, (M,)."""
    context, moves = ensemble.embed(
        (batch.seen, batch.asked), (batch.values, batch.known), has_own_inputs=True
    )
    scale = ensemble.parameters["log_scale"].clamp(max=MAX_LOG_SCALE).exp()[:, None, None]
    logits = scale * context @ moves.transpose(1, 2)
    contrasts: torch.Tensor = vmap(symmetric_infonce)(
        logits, batch.context, batch.state, batch.good
    )
    return contrasts


def symmetric_infonce(
    logits: torch.Tensor, context: torch.Tensor, state: torch.Tensor, good: torch.Tensor
) -> torch.Tensor:
    """Return the symmetric InfoNCE loss of one member from logits (B, K); other arguments as in `Batch`.

    In the direction from state to move, the good candidates of a state together are contrasted with its bad ones and
    with the good ones of other states. Bad candidates of other states are excluded, because they may be good here. In
    the direction from move to state, the state of a good candidate is contrasted with the others, with equal weight per
    state. Other states with the same view and question are not negatives and are excluded from both.
    """
    number = torch.arange(len(logits), device=logits.device)[:, None]
    own = state == number  # (B, K)
    owner = state.clamp(min=0)
    apart = (context[:, None] != context[owner]) & (state >= 0)
    right = own & good
    low = float("-inf")
    all_moves = logits.masked_fill(~(own | apart & good), low).logsumexp(1)
    to_move = all_moves - logits.masked_fill(~right, low).logsumexp(1)

    # padding columns belong to no state; they attend to all states and have weight zero
    states = logits.masked_fill(~(own | apart | (state < 0)), low)
    weight = (right / right.sum(1, keepdim=True)).sum(0)
    to_state = functional.cross_entropy(states.T, owner, reduction="none") * weight
    return (to_move.mean() + to_state.sum() / len(logits)) / 2
