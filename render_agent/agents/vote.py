"""The agent that has several samples of every reply vote: on the answer, or on the move."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.agents.agent import Agent, Need, Tools
from render_agent.agents.candidates import default_candidate
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.evidence import Ballot, Candidate, Evidence
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action
from render_agent.scans.camera import Camera
from render_agent.score.questions import metric_of

POSE_STEP_DEGREES = 15.0
POSE_STEP_METRES = 0.25
"""Moves are equal that lead to the same pose, counted in such steps from where the camera stands."""


@dataclass(frozen=True)
class Vote(Agent):
    """Takes what most of several samples of one request say; those that cannot be read have no vote.

    The dialogue ends where more than half of them end it, or in the last turn: with the answer that wins
    among those that then answer, whichever sample is fed back. Else the move is made that most of the
    others ask for, of several the one that came first.
    """

    form = "vote:K"

    def choose(
        self, tools: Tools, context: TurnContext, candidates: Sequence[Candidate]
    ) -> Generator[Need, Any, Evidence]:
        """Let the samples vote."""
        yield from ()
        readable = [c for c in candidates if isinstance(c.action, Action)]
        ending = [c for c in readable if _ends(c, context)]
        outcome = None
        if context.last or 2 * len(ending) > len(readable):
            voters = readable if context.last else ending
            outcome = _outcome(context, candidates, voters)
        if outcome is not None:
            chosen = _answering(candidates, outcome)
        elif context.last or not readable:
            chosen = default_candidate(context, candidates)
        else:
            moving = [c for c in readable if c not in ending]
            chosen = _commonest(context, moving, tools.prompt.on_request)
        return Evidence(self.text, tuple(candidates), chosen.number, ballot=outcome)


def _commonest(
    context: TurnContext, moving: Sequence[Candidate], kinds: Sequence[str]
) -> Candidate:
    """Return the first of those that lead where most do."""
    leads = [_lead(context.observation.camera, candidate, kinds) for candidate in moving]
    commonest = Counter(leads).most_common(1)[0][0]
    return moving[leads.index(commonest)]


def _lead(stood: Camera, candidate: Candidate, kinds: Sequence[str]) -> Hashable:
    """Return the key by which votes for equal moves are counted: pose and view, rounded."""
    action, there = candidate.action, candidate.camera
    assert isinstance(action, Action), "it could be read"
    turned = round(((there.yaw - stood.yaw) % 360) / POSE_STEP_DEGREES) % round(
        360 / POSE_STEP_DEGREES
    )
    tilted = round((there.pitch - stood.pitch) / POSE_STEP_DEGREES)
    pairs = zip(there.position, stood.position, strict=True)
    moved = tuple(round((to - from_) / POSE_STEP_METRES) for to, from_ in pairs)
    view = action.view if action.view is not None or not kinds else kinds[0]
    return turned, tilted, moved, view


def _ends(candidate: Candidate, context: TurnContext) -> bool:
    """Whether it ends the dialogue: it says done, with an answer or with one standing from before."""
    action = candidate.action
    assert isinstance(action, Action), "it could be read"
    return action.done and _answer(candidate, context) is not None


def _answer(candidate: Candidate, context: TurnContext) -> str | None:
    """Return the answer that would stand after a candidate."""
    return candidate.action.answer or context.state.answer


def _outcome(
    context: TurnContext, candidates: Sequence[Candidate], voters: Sequence[Candidate]
) -> Ballot | None:
    numbers = {candidate.number for candidate in voters}
    votes = [_answer(c, context) if c.number in numbers else None for c in candidates]
    return ballot(context.state.question, votes)


def _answering(candidates: Sequence[Candidate], outcome: Ballot) -> Candidate:
    """Return the first sample that voted for the winner."""
    return candidates[outcome.votes.index(outcome.winner)]


def ballot(question: Question, votes: Sequence[str | None]) -> Ballot | None:
    """Return the outcome of a vote on the answer by the question's metric, None where nobody gave one.

    votes: canonical answers, by sample.
    """
    answers = [vote for vote in votes if vote is not None]
    if not answers:
        return None
    winner, expected = metric_of(question).vote(answers)
    return Ballot(
        votes=tuple(votes),
        winner=winner,
        agreement=sum(vote.lower() == winner.lower() for vote in answers) / len(answers),
        expected=expected,
        spread=statistics.pstdev(map(float, answers)) if question.wanted == "number" else None,
    )
