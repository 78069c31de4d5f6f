"""Choosing among candidate moves: the default choice, and the choice of verifiers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from render_agent.agents.agent import Draw, Judge, Need, Tools
from render_agent.agents.verifiers.score_fusion import fused, judgements
from render_agent.agents.verifiers.verifier import Case, FloatArray, TurnContext, Verdict
from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.dialogue.reply import Action


def default_candidate(context: TurnContext, candidates: Sequence[Candidate]) -> Candidate:
    """Return the first readable candidate; in the last turn, the first that answers."""
    if context.last:
        answering = [c for c in candidates if c.action.answer is not None]
        if answering:
            return answering[0]
    readable = [c for c in candidates if isinstance(c.action, Action)]
    return (readable or candidates)[0]


def preview(tools: Tools, context: TurnContext, candidates: Sequence[Candidate]) -> Draw:
    """Return the need for the candidates with the view that each leads to, in order."""
    state, now = context.state, context.observation
    return Draw(partial(tools.views.preview, state, now, tuple(candidates)))


def choose_best(
    tools: Tools,
    context: TurnContext,
    evidence: Evidence,
    candidates: Sequence[Candidate],
    best: Callable[[Sequence[Candidate], FloatArray], Candidate],
) -> Generator[Need, Any, Evidence]:
    """Have the verifiers score candidates and choose the best; without any score, keep the choice so far.

    Args:
        tools: Holds the verifiers.
        context: The turn.
        evidence: The choice so far.
        candidates: Those to be scored.
        best: Picks one from the candidates and their fused scores, (K,).

    Returns:
        The evidence with the scores and the choice.
    """
    verdicts = yield from _verdicts(tools, context, tuple(candidates))
    values = fused(verdicts)
    chosen = evidence.chosen if values is None else best(candidates, values).number
    return replace(
        with_candidates(evidence, candidates),
        chosen=chosen,
        weighed=tuple(candidate.number for candidate in candidates),
        judgements=judgements(tools.verifiers, verdicts),
        fused=() if values is None else tuple(map(float, values)),
    )


def with_candidates(evidence: Evidence, candidates: Sequence[Candidate]) -> Evidence:
    """Return the evidence with these candidates in place of those with the same numbers."""
    known = {candidate.number: candidate for candidate in evidence.candidates}
    known |= {candidate.number: candidate for candidate in candidates}
    return replace(evidence, candidates=tuple(known[number] for number in sorted(known)))


def _verdicts(
    tools: Tools, context: TurnContext, candidates: tuple[Candidate, ...]
) -> Generator[Need, Any, tuple[Verdict, ...]]:
    silent = [verifier for verifier in tools.verifiers if not verifier.asks_model]
    drawn: list[Verdict] = []
    asked: list[Verdict] = []
    if silent:
        drawn = yield Draw(lambda: [v.score(context, candidates) for v in silent])
    if len(silent) < len(tools.verifiers):
        asked = yield Judge(Case(context, candidates))
    verdicts = iter(drawn), iter(asked)
    return tuple(next(verdicts[verifier.asks_model]) for verifier in tools.verifiers)
