"""What the ensemble learns from: a state, the moves that could be made there, and which were good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from render_agent_lab.learned_verifier.encoder import Encoder, EncoderInput, FeatureCache
from render_agent_lab.learned_verifier.history import Histories, read_histories
from render_agent_lab.learned_verifier.shape import Features
from render_agent_lab.verifier_training.decision import Decision

AT_ONCE = 32
"""Views that are encoded together."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One state with its candidates.

    features: of the view and the question; the same object where several states share both, so that
    it is read once. histories: N candidates. good: (N,) bool, one at least. ValueError where not so.
    """

    features: Features
    histories: Histories
    good: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if self.good.shape != (len(self.histories),) or self.good.dtype != np.bool_:
            raise ValueError(
                f"{len(self.histories)} candidates need as many bools, not {self.good.shape}"
                f" {self.good.dtype}"
            )
        if not self.good.any():
            raise ValueError("a state without a good candidate teaches nothing: leave it out")

    @property
    def is_a_choice(self) -> bool:
        """Whether a candidate can be wrong here."""
        return not self.good.all()


def make_examples(decisions: Sequence[Decision], encoder: Encoder, length: int) -> list[Example]:
    """Return an example for every decision, in their order; each must have a good candidate.

    length: moves of a history at the most. RunLogError where a picture is gone.
    """
    examples: list[Example] = []
    for _, group in groupby(decisions, key=lambda decision: decision.context.picture):
        own = list(group)
        reader = FeatureCache(encoder, own[0].context.picture)
        for first in range(0, len(own), AT_ONCE):
            part = own[first : first + AT_ONCE]
            pairs = []
            for decision in part:
                glimpse = EncoderInput.of(decision.context)
                assert glimpse is not None, "its run shows views"
                pairs.append((glimpse, decision.context.state.question))
            for decision, features in zip(part, reader.features(pairs), strict=True):
                histories = read_histories(decision.context, decision.candidates, length)
                examples.append(Example(features, histories, decision.good))
    return examples
