"""Decisions as the examples that the ensemble learns from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from render_agent.agents.verifiers.learned.encoder import Encoder, Glimpse, Reader
from render_agent.agents.verifiers.learned.reading import read_histories
from render_agent_lab.verifier_training.decision import Decision
from render_agent_lab.verifier_training.example import Example

AT_ONCE = 32
"""Views that are encoded together."""


def make_examples(
    decisions: Sequence[Decision],
    encoder: Encoder,
    length: int,
    told: Callable[[int], None] = lambda done: None,
) -> list[Example]:
    """Return an example for every decision, in their order; each must have a good candidate.

    length: moves of a history at the most. told: is given how many decisions are read. RunLogError
    where a picture is gone.
    """
    found: list[Example] = []
    for _, group in groupby(decisions, key=lambda decision: decision.situation.picture):
        own = list(group)
        reader = Reader(encoder, own[0].situation.picture)
        for first in range(0, len(own), AT_ONCE):
            part = own[first : first + AT_ONCE]
            asked = []
            for decision in part:
                glimpse = Glimpse.of(decision.situation)
                assert glimpse is not None, "its run shows views"
                asked.append((glimpse, decision.situation.state.question))
            for decision, features in zip(part, reader.features(asked), strict=True):
                histories = read_histories(decision.situation, decision.candidates, length)
                found.append(Example(features, histories, decision.good))
            told(len(found))
    return found
