"""Training examples: a state, its candidate moves, and which of them were good."""

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

BATCH_SIZE = 32  # views encoded per batch


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One state with its candidates."""

    features: Features
    """Features of the view and the question; shared between states that have the same."""
    histories: Histories
    good: NDArray[np.bool_]  # (N,) bool mask with at least one good candidate

    def __post_init__(self) -> None:
        if self.good.shape != (len(self.histories),) or self.good.dtype != np.bool_:
            raise ValueError(
                f"expected {len(self.histories)} bools, not {self.good.shape} {self.good.dtype}"
            )
        if not self.good.any():
            raise ValueError("a state needs at least one good candidate")

    @property
    def is_a_choice(self) -> bool:
        """True if some candidate is not good."""
        return not self.good.all()


def make_examples(decisions: Sequence[Decision], encoder: Encoder, length: int) -> list[Example]:
    """Return an example for every decision, in order; each must have a good candidate.

    `length` is the maximum number of moves per history. Raises RunLogError if an image is missing.
    """
    examples: list[Example] = []
    for _, group in groupby(decisions, key=lambda decision: decision.context.load_image):
        group_decisions = list(group)
        reader = FeatureCache(encoder, group_decisions[0].context.load_image)
        for start in range(0, len(group_decisions), BATCH_SIZE):
            part = group_decisions[start : start + BATCH_SIZE]
            pairs = []
            for decision in part:
                view_input = EncoderInput.of(decision.context)
                assert view_input is not None, "the run shows views"
                pairs.append((view_input, decision.context.state.question))
            for decision, features in zip(part, reader.features(pairs), strict=True):
                histories = read_histories(decision.context, decision.candidates, length)
                examples.append(Example(features, histories, decision.good))
    return examples
