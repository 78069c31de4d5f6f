"""Agents that choose among moves: by verifiers, or by showing the model where each move leads.

As in `single`, the first readable reply decides whether the dialogue ends; verifiers score moves, not answers. Runs
with different verifiers, including the random baseline, therefore differ only in their moves.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from render_agent.agents.agent import Agent, Need, Tools
from render_agent.agents.candidates import (
    choose_best,
    default_candidate,
    preview_views,
    with_candidates,
)
from render_agent.agents.verifiers.verifier import FloatArray, TurnContext
from render_agent.dialogue.turn import Candidate, Evidence


@dataclass(frozen=True)
class Best(Agent):
    """Chooses the move with the best verifier score, without rendering candidates."""

    form = "best:K"
    verifiers: ClassVar[Sequence[str] | None] = ()

    def choose(
        self, tools: Tools, context: TurnContext, candidates: Sequence[Candidate]
    ) -> Generator[Need, Any, Evidence]:
        """Render the candidates if needed, score them, and choose the best one."""
        default = default_candidate(context, candidates)
        evidence = Evidence(self.text, tuple(candidates), default.number)
        moving = [candidate for candidate in candidates if candidate.continues_dialogue]
        if context.is_last_turn or not default.continues_dialogue or len(moving) < 2:
            return evidence
        if self.draws:
            moving = yield preview_views(tools, context, moving)
        if self.shows_all:
            return with_candidates(evidence, moving)
        return (yield from choose_best(tools, context, evidence, moving, self.pick_best))

    def pick_best(self, candidates: Sequence[Candidate], values: FloatArray) -> Candidate:
        """Return the candidate with the highest score, or the first of several with equal scores; values: (K,)."""
        return candidates[int(values.argmax())]


@dataclass(frozen=True)
class Lookahead(Best):
    """Renders the view that each candidate leads to, and chooses the one with the best verifier score."""

    form = "lookahead:K"
    verifiers: ClassVar[Sequence[str] | None] = ("geometry",)
    draws = True


@dataclass(frozen=True)
class Show(Best):
    """Makes the first move, and shows the model the views that all candidates lead to."""

    form = "show:K"
    verifiers: ClassVar[Sequence[str] | None] = None
    draws = True
    shows_all = True
