"""What scoring takes: one by one, batched, computed once; and that the scores are the same."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from render_agent.agents.verifiers.base import Case, FloatArray, Verifier
from render_agent.agents.verifiers.geometry import GeometryVerifier
from render_agent_lab.verifier_benchmark.decisions import Decision

if TYPE_CHECKING:
    from render_agent_lab.learned_verifier.history import Histories
    from render_agent_lab.learned_verifier.shape import Features
    from render_agent_lab.learned_verifier.verifier import LearnedVerifier

ONE_BY_ONE = "one by one"
TOGETHER = "the candidates of a state together"
ALL = "all states together"
REMEMBERED = "together, earlier views remembered"
REPEATED = "batched, the view repeated for every move"
ONCE = "batched, the view computed once"

ROUNDS = 3

Way = Callable[[Sequence[Decision]], list[FloatArray]]


def latency(
    verifier: Verifier, decisions: Sequence[Decision], *, alone: bool = True
) -> dict[str, Any]:
    """Return milliseconds a decision for every way to score, and how far its scores are from the first way.

    alone: whether a judge can score a candidate by itself. The ways take turns, ROUNDS times; the median
    counts. The first round is not timed.
    """
    ways = dict(ways_of(verifier))
    if not alone and verifier.name.startswith("judge"):
        del ways[ONE_BY_ONE]
    base = next(iter(ways))
    first = {name: way(decisions) for name, way in ways.items()}  # not timed
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            way(decisions)
            seconds[name].append(time.perf_counter() - began)
    slow = statistics.median(seconds[base])
    return {
        name: {
            "milliseconds": 1000 * statistics.median(times) / len(decisions),
            "times_faster": slow / statistics.median(times),
            "apart": apart(first[base], first[name]),
        }
        for name, times in seconds.items()
    }


def ways_of(verifier: Verifier) -> Mapping[str, Way]:
    """Return the ways in which a verifier can score the same decisions, the plainest first."""

    def one_by_one(decisions: Sequence[Decision]) -> list[FloatArray]:
        return [
            np.concatenate([verifier.score(d.context, [c]).scores for c in d.candidates], 1)
            for d in decisions
        ]

    def together(decisions: Sequence[Decision]) -> list[FloatArray]:
        return [verifier.score(d.context, d.candidates).scores for d in decisions]

    def all_states(decisions: Sequence[Decision]) -> list[FloatArray]:
        verdicts = verifier.score_all([Case(d.context, d.candidates) for d in decisions])
        return [verdict.scores for verdict in verdicts]

    if isinstance(verifier, GeometryVerifier):
        return _of_geometry(verifier) | {REMEMBERED: together}
    if verifier.name.startswith("learned"):
        from render_agent_lab.learned_verifier.verifier import LearnedVerifier

        assert isinstance(verifier, LearnedVerifier), "its name is its own"
        return _of_learned(verifier)
    return {ONE_BY_ONE: one_by_one, TOGETHER: together, ALL: all_states}


def _of_geometry(verifier: GeometryVerifier) -> dict[str, Way]:
    """Return the ways without what other states have told; the scene itself stays known."""

    def one_by_one(decisions: Sequence[Decision]) -> list[FloatArray]:
        latencies = []
        for decision in decisions:
            parts = []
            for candidate in decision.candidates:
                verifier.rooms.forget()
                parts.append(verifier.score(decision.context, [candidate]).scores)
            latencies.append(np.concatenate(parts, 1))
        return latencies

    def together(decisions: Sequence[Decision]) -> list[FloatArray]:
        latencies = []
        for decision in decisions:
            verifier.rooms.forget()
            latencies.append(verifier.score(decision.context, decision.candidates).scores)
        return latencies

    return {ONE_BY_ONE: one_by_one, TOGETHER: together}


def _of_learned(verifier: LearnedVerifier) -> dict[str, Way]:
    """Return the ways of the ensemble; features of views and questions are given in all of them."""
    from render_agent_lab.learned_verifier.encoder import EncoderInput, FeatureCache
    from render_agent_lab.learned_verifier.history import read_histories
    from render_agent_lab.verifier_benchmark.naive_scoring import score_one_by_one, score_repeated

    inputs: dict[int, tuple[Features, Histories]] = {}

    def read(decision: Decision) -> tuple[Features, Histories]:
        if id(decision) not in inputs:
            context = decision.context
            glimpse = EncoderInput.of(context)
            assert glimpse is not None, "decisions are made from views"
            reader = FeatureCache(verifier.encoder, context.picture)
            (features,) = reader.features([(glimpse, context.state.question)])
            length = verifier.ensemble.shape.history
            inputs[id(decision)] = features, read_histories(context, decision.candidates, length)
        return inputs[id(decision)]

    def way(score: Callable[[Features, Histories], Any]) -> Way:
        return lambda decisions: [np.asarray(score(*read(d)), np.float64) for d in decisions]

    ensemble = verifier.ensemble
    return {
        ONE_BY_ONE: way(partial(score_one_by_one, ensemble)),
        REPEATED: way(partial(score_repeated, ensemble)),
        ONCE: way(ensemble.score),
    }


def apart(first: Sequence[FloatArray], other: Sequence[FloatArray]) -> float:
    """Return the largest difference of two scores; inf where only one of them is known."""
    most = 0.0
    for mine, its in zip(first, other, strict=True):
        if (np.isnan(mine) != np.isnan(its)).any():
            return float("inf")
        most = max(most, float(np.abs(np.nan_to_num(mine) - np.nan_to_num(its)).max()))
    return most
