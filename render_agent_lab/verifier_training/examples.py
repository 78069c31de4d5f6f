"""Decisions as the examples that the ensemble learns from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from render_agent_lab.learned_verifier.encoder import Encoder, EncoderInput, FeatureCache
from render_agent_lab.learned_verifier.history import read_histories
from render_agent_lab.verifier_training.decision import Decision
from render_agent_lab.verifier_training.example import Example

AT_ONCE = 32
"""Views that are encoded together."""


def make_examples(
    decisions: Sequence[Decision],
    encoder: Encoder,
    length: int,
    report: Callable[[int], None] = lambda done: None,
) -> list[Example]:
    """Return an example for every decision, in their order; each must have a good candidate.

    length: moves of a history at the most. report: is given how many decisions are read. RunLogError
    where a picture is gone.
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
            report(len(examples))
    return examples
