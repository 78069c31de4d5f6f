"""Accuracy of an ensemble's choices in unseen states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from render_agent.agents.verifiers.score_fusion import mean_ranks
from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.verifier_training.batches import PreparedExamples
from render_agent_lab.verifier_training.examples import Example

BATCH_SIZE = 256  # contexts or histories per forward pass; fits in memory at the largest sizes

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """Accuracy of the choices in S states that have good and bad candidates."""

    fused: FloatArray  # (S,) 1 if the candidate with the best mean rank was good, else 0
    members: FloatArray  # (M, S) the same for each member alone
    chance: FloatArray  # (S,) share of good candidates, the expected accuracy of a random choice

    def to_json(self) -> dict[str, object]:
        """Return the means over states, None if there are no states."""
        if not len(self.fused):
            return {"states": 0, "chosen": None, "members": None, "chance": None}
        return {
            "states": len(self.fused),
            "chosen": float(self.fused.mean()),
            "members": self.members.mean(1).tolist(),
            "chance": float(self.chance.mean()),
        }


def choose(ensemble: Ensemble, examples: Sequence[Example]) -> Choices:
    """Choose in every state of `examples` that has a bad candidate."""
    examples = [example for example in examples if example.is_a_choice]
    if not examples:
        empty = np.zeros(0)
        return Choices(empty, np.zeros((ensemble.members, 0)), empty)
    return choose_prepared(ensemble, PreparedExamples(ensemble.shape, examples, ensemble.device))


def choose_prepared(ensemble: Ensemble, prepared: PreparedExamples) -> Choices:
    """Choose in every prepared state."""
    fused, members, chance = [], [], []
    for number, scores in enumerate(_scores(ensemble, prepared)):
        good = prepared.good[prepared.candidates(number)]
        fused.append(good[mean_ranks(scores).argmax()])
        members.append(good[scores.argmax(1)])
        chance.append(good.mean())
    return Choices(
        np.array(fused, np.float64), np.array(members, np.float64).T, np.array(chance, np.float64)
    )


def scores_of(ensemble: Ensemble, examples: Sequence[Example]) -> list[FloatArray]:
    """Return each member's scores of the candidates of every state, as cosines (M, K)."""
    if not examples:
        return []
    return _scores(ensemble, PreparedExamples(ensemble.shape, examples, ensemble.device))


def _scores(ensemble: Ensemble, prepared: PreparedExamples) -> list[FloatArray]:
    with torch.inference_mode():
        contexts = [
            ensemble.embed(contexts=pair)[0]
            for pair in zip(
                prepared.seen.split(BATCH_SIZE), prepared.asked.split(BATCH_SIZE), strict=True
            )
        ]
        moves = [
            ensemble.embed(histories=pair)[0]
            for pair in zip(
                prepared.values.split(BATCH_SIZE), prepared.known.split(BATCH_SIZE), strict=True
            )
        ]
    context, move = (torch.cat(parts, 1).cpu().numpy() for parts in (contexts, moves))
    return [
        np.einsum(
            "mw,mnw->mn", context[:, prepared.context(number)], move[:, prepared.candidates(number)]
        ).astype(np.float64)
        for number in range(len(prepared))
    ]
