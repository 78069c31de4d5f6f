"""Chooses among candidate moves, by default rules or by verifiers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from render_agent.agents.agent import Draw, Judge, Need, Tools
from render_agent.agents.verifiers.score_fusion import fuse_scores, to_judgements
from render_agent.agents.verifiers.verifier import Case, FloatArray, TurnContext, Verdict
from render_agent.dialogue.reply import Action
from render_agent.dialogue.turn import Candidate, Evidence


def default_candidate(context: TurnContext, candidates: Sequence[Candidate]) -> Candidate:
    """Return the first readable candidate; in the last turn, the first one with an answer."""
    if context.is_last_turn:
        with_answer = [c for c in candidates if c.action.answer is not None]
        if with_answer:
            return with_answer[0]
    readable = [c for c in candidates if isinstance(c.action, Action)]
    return (readable or candidates)[0]


def preview_views(tools: Tools, context: TurnContext, candidates: Sequence[Candidate]) -> Draw:
    """Return a request to render the view that each candidate leads to. Its result is the candidates with their
    views.
    """
    state, observation = context.state, context.observation
    return Draw(partial(tools.views.preview, state, observation, tuple(candidates)))


def choose_best(
    tools: Tools,
    context: TurnContext,
    evidence: Evidence,
    candidates: Sequence[Candidate],
    # picks one from the candidates and their fused scores, (K,)
    pick: Callable[[Sequence[Candidate], FloatArray], Candidate],
) -> Generator[Need, Any, Evidence]:
    """Score the candidates with the verifiers and choose the best one.

    If no verifier returns a score, the choice in `evidence` is kept.
    """
    verdicts = yield from _verdicts(tools, context, tuple(candidates))
    values = fuse_scores(verdicts)
    choice = evidence.chosen if values is None else pick(candidates, values).number
    return replace(
        with_candidates(evidence, candidates),
        chosen=choice,
        weighed=tuple(candidate.number for candidate in candidates),
        judgements=to_judgements(tools.verifiers, verdicts),
        fused=() if values is None else tuple(map(float, values)),
    )


def with_candidates(evidence: Evidence, candidates: Sequence[Candidate]) -> Evidence:
    """Replace candidates in the evidence by those with the same number."""
    by_number = {candidate.number: candidate for candidate in evidence.candidates}
    by_number |= {candidate.number: candidate for candidate in candidates}
    return replace(evidence, candidates=tuple(by_number[number] for number in sorted(by_number)))


def _verdicts(
    tools: Tools, context: TurnContext, candidates: tuple[Candidate, ...]
) -> Generator[Need, Any, tuple[Verdict, ...]]:
    local = [verifier for verifier in tools.verifiers if not verifier.uses_model]
    from_local: list[Verdict] = []
    from_model: list[Verdict] = []
    if local:
        from_local = yield Draw(lambda: [v.score(context, candidates) for v in local])
    if len(local) < len(tools.verifiers):
        from_model = yield Judge(Case(context, candidates))
    verdicts = iter(from_local), iter(from_model)
    return tuple(next(verdicts[verifier.uses_model]) for verifier in tools.verifiers)
