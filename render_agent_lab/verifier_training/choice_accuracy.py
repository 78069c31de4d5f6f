"""How well an ensemble chooses in states that it has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from render_agent.agents.verifiers.score_fusion import mean_ranks
from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.verifier_training.batches import Prepared
from render_agent_lab.verifier_training.examples import Example

AT_ONCE = 256
"""Contexts or histories embedded together: as many as memory holds at the largest sizes."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """What was chosen in S states where a candidate can be wrong.

    fused: (S,) 1 where the candidate with the best mean rank was good, else 0. members: (M, S), each
    member alone. chance: (S,) the share of good candidates: what a random choice comes to.
    """

    fused: FloatArray
    members: FloatArray
    chance: FloatArray

    def to_json(self) -> dict[str, object]:
        """Return the shares of states; None where there is no state."""
        if not len(self.fused):
            return {"states": 0, "chosen": None, "members": None, "chance": None}
        return {
            "states": len(self.fused),
            "chosen": float(self.fused.mean()),
            "members": self.members.mean(1).tolist(),
            "chance": float(self.chance.mean()),
        }


def choose(ensemble: Ensemble, examples: Sequence[Example]) -> Choices:
    """Let the ensemble choose in every state of `examples` where a candidate can be wrong."""
    examples = [example for example in examples if example.is_a_choice]
    if not examples:
        nothing = np.zeros(0)
        return Choices(nothing, np.zeros((ensemble.members, 0)), nothing)
    return choose_prepared(ensemble, Prepared(ensemble.shape, examples, ensemble.device))


def choose_prepared(ensemble: Ensemble, prepared: Prepared) -> Choices:
    """Let the ensemble choose in every one of these states."""
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
    """Return each member's scores of the candidates of every state, (M, K) each: cosines."""
    if not examples:
        return []
    return _scores(ensemble, Prepared(ensemble.shape, examples, ensemble.device))


def _scores(ensemble: Ensemble, prepared: Prepared) -> list[FloatArray]:
    with torch.inference_mode():
        contexts = [
            ensemble.embed(contexts=pair)[0]
            for pair in zip(
                prepared.seen.split(AT_ONCE), prepared.asked.split(AT_ONCE), strict=True
            )
        ]
        moves = [
            ensemble.embed(histories=pair)[0]
            for pair in zip(
                prepared.values.split(AT_ONCE), prepared.known.split(AT_ONCE), strict=True
            )
        ]
    context, move = (torch.cat(parts, 1).cpu().numpy() for parts in (contexts, moves))
    return [
        np.einsum(
            "mw,mnw->mn",
            context[:, prepared.context(number)],
            move[:, prepared.candidates(number)],
        ).astype(np.float64)
        for number in range(len(prepared))
    ]
