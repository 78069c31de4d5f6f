"""Naive reference implementations of ensemble scoring."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from render_agent_lab.learned_verifier.ensemble import Ensemble, FloatArray
from render_agent_lab.learned_verifier.history import Histories
from render_agent_lab.learned_verifier.network import MemberNetwork, PoolingBlock, extract
from render_agent_lab.learned_verifier.shape import Features


class PlainPoolingBlock(PoolingBlock):
    """A pooling block that computes a key and a value for every token."""

    def attend(self, query: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """Return the same result as the block that folds them into its single query."""
        key, value = (
            x.unflatten(-1, query.shape[1:]).transpose(1, 2)
            for x in (self.key(tokens), self.value(tokens))
        )
        logits = query[:, :, None] @ key.transpose(2, 3) * query.shape[-1] ** -0.5
        attended: torch.Tensor = logits.softmax(-1) @ value
        return attended[:, :, 0]


def with_plain_pooling(ensemble: Ensemble) -> Ensemble:
    """Return the ensemble with `PlainPoolingBlock` as its pooling blocks."""
    with torch.device("meta"):
        network = MemberNetwork(ensemble.shape)
    for block in [*network.seen.blocks, *network.asked.blocks]:
        block.__class__ = PlainPoolingBlock
    return Ensemble(ensemble.shape, ensemble.parameters, network)


def score_one_by_one(ensemble: Ensemble, features: Features, histories: Histories) -> FloatArray:
    """Return the result of `Ensemble.score`, computed separately for every history and member."""
    ones = [slice(number, number + 1) for number in range(len(histories))]
    parts = [Histories(histories.values[row], histories.known[row]) for row in ones]
    return np.concatenate([score_repeated(ensemble, features, part) for part in parts], 1)


def score_repeated(ensemble: Ensemble, features: Features, histories: Histories) -> FloatArray:
    """Return the result of `Ensemble.score`, one batch per member, with the view repeated for every history."""
    with torch.inference_mode():
        rows = list(_by_member(ensemble, features, histories))
    scores: FloatArray = torch.cat(rows).cpu().numpy()
    return scores


def _by_member(
    ensemble: Ensemble, features: Features, histories: Histories
) -> Iterator[torch.Tensor]:
    patches, text, values, known = ensemble.tensors(features, histories)
    members = with_plain_pooling(ensemble)
    for number in range(ensemble.members):
        views, texts = (x.repeat(len(values), 1, 1) for x in (patches, text))
        inputs = extract(ensemble.shape, views, texts), (values, known)
        context, moves = members.member(number).embed(*inputs)
        yield (context * moves).sum(-1)
