"""The symmetric contrastive loss: a state finds its good moves, a good move finds its state."""

from __future__ import annotations

import math

import torch
from torch.func import vmap
from torch.nn import functional

from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.verifier_training.batches import Batch

MAX_LOG_SCALE = math.log(100)
"""The learned temperature goes down to 0.01 and no further, so that training stays stable."""


def losses(ensemble: Ensemble, batch: Batch) -> torch.Tensor:
    """Return each member's loss over its batch, (M,)."""
    context, moves = ensemble.embed(
        (batch.seen, batch.asked), (batch.values, batch.known), own=True
    )
    scale = ensemble.parameters["log_scale"].clamp(max=MAX_LOG_SCALE).exp()[:, None, None]
    logits = scale * context @ moves.transpose(1, 2)
    contrasts: torch.Tensor = vmap(contrast)(logits, batch.context, batch.state, batch.good)
    return contrasts


def contrast(
    logits: torch.Tensor, context: torch.Tensor, state: torch.Tensor, good: torch.Tensor
) -> torch.Tensor:
    """Return the symmetric InfoNCE of one member's logits (B, K), a number; the rest as in `Batch`.

    From state to move: its good candidates together against its bad ones and the good ones of other
    states. The bad ones of other states are left out, since they may be good here. From move to state:
    a good candidate's own state against the others; every state counts alike. What belongs to another
    state with the same view and question is no wrong answer, and counts in neither.
    """
    number = torch.arange(len(logits), device=logits.device)[:, None]
    own = state == number  # (B, K)
    owner = state.clamp(min=0)
    apart = (context[:, None] != context[owner]) & (state >= 0)
    right = own & good
    low = float("-inf")
    all_moves = logits.masked_fill(~(own | apart & good), low).logsumexp(1)
    to_move = all_moves - logits.masked_fill(~right, low).logsumexp(1)

    # a column that only fills up belongs to nobody; it sees every state, and weighs nothing
    states = logits.masked_fill(~(own | apart | (state < 0)), low)
    weight = (right / right.sum(1, keepdim=True)).sum(0)
    to_state = functional.cross_entropy(states.T, owner, reduction="none") * weight
    return (to_move.mean() + to_state.sum() / len(logits)) / 2
