"""The symmetric contrastive loss: a state finds its good moves, a good move finds its state."""

from __future__ import annotations

import math

import torch

from render_agent.agents.verifiers.learned.context import embed_context
from render_agent.agents.verifiers.learned.parameters import Parameters
from render_agent.agents.verifiers.learned.shape import Shape
from render_agent.agents.verifiers.learned.tower import embed_histories
from render_agent_lab.verifier_training.batches import Batch

SHARPEST = math.log(100)
"""The learned temperature goes down to 0.01 and no further, so that training stays stable."""


def losses(shape: Shape, p: Parameters, batch: Batch) -> torch.Tensor:
    """Return each member's loss over its batch, (M,)."""
    context = embed_context(shape, p, (batch.seen, batch.asked))
    moves = embed_histories(shape, p, batch.values, batch.known)
    scale = p["log_scale"].clamp(max=SHARPEST).exp()[:, None, None]
    return contrast(scale * context @ moves.transpose(1, 2), batch.context, batch.state, batch.good)


def contrast(
    logits: torch.Tensor, context: torch.Tensor, state: torch.Tensor, good: torch.Tensor
) -> torch.Tensor:
    """Return the symmetric InfoNCE of logits (M, B, K), (M,); the rest as in `Batch`.

    From state to move: its good candidates together against its bad ones and the good ones of other
    states. The bad ones of other states are left out, since they may be good here. From move to state:
    a good candidate's own state against the others; every state counts alike. What belongs to another
    state with the same view and question is no wrong answer, and counts in neither.
    """
    number = torch.arange(logits.shape[1], device=logits.device)[:, None]
    own = state[:, None] == number  # (M, B, K)
    owner = state.clamp(min=0)
    theirs = context.gather(1, owner)
    apart = (context[:, :, None] != theirs[:, None]) & (state >= 0)[:, None]
    right = own & good[:, None]
    low = float("-inf")
    all_moves = logits.masked_fill(~(own | apart & good[:, None]), low).logsumexp(2)
    to_move = all_moves - logits.masked_fill(~right, low).logsumexp(2)

    # a column that only fills up belongs to nobody; it sees every state, and weighs nothing
    nobody = (state < 0)[:, None]
    all_states = logits.masked_fill(~(own | apart | nobody), low).logsumexp(1)
    its_own = logits.gather(1, owner[:, None])[:, 0]
    share = right / right.sum(2, keepdim=True)
    weight = share.sum(1)
    to_state = ((all_states - its_own) * weight).sum(1) / logits.shape[1]
    return (to_move.mean(1) + to_state) / 2
