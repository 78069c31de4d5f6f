"""The agent that takes a majority vote over several samples: on the answer, or on the move."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.agents.agent import Agent, Need, Tools
from render_agent.agents.candidates import default_candidate
from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import Action
from render_agent.dialogue.turn import Ballot, Candidate, Evidence
from render_agent.scans.camera import Camera
from render_agent.score.questions import metric_of

# Moves count as equal if they lead to the same pose, rounded to these steps relative to the current pose.
POSE_STEP_DEGREES = 15.0
POSE_STEP_METRES = 0.25


@dataclass(frozen=True)
class Vote(Agent):
    """Takes a majority vote over several samples of one request. Unreadable samples do not vote.

    The dialogue ends in the last turn, or if more than half of the samples end it, with the most frequent answer.
    Otherwise the most frequent move of the other samples is made. The first sample wins a tie.
    """

    form = "vote:K"

    def choose(
        self, tools: Tools, context: TurnContext, candidates: Sequence[Candidate]
    ) -> Generator[Need, Any, Evidence]:
        yield from ()
        readable = [c for c in candidates if isinstance(c.action, Action)]
        ending = [c for c in readable if _ends(c, context)]
        answer_vote = None
        if context.is_last_turn or 2 * len(ending) > len(readable):
            voters = readable if context.is_last_turn else ending
            votes = [_answer(c, context) if c in voters else None for c in candidates]
            answer_vote = ballot(context.state.question, votes)
        if answer_vote is not None:
            choice = candidates[answer_vote.votes.index(answer_vote.winner)]
        elif context.is_last_turn or not readable:
            choice = default_candidate(context, candidates)
        else:
            moving = [c for c in readable if c not in ending]
            choice = _most_frequent_move(context, moving, tools.prompt.requestable_kinds)
        return Evidence(self.text, tuple(candidates), choice.number, ballot=answer_vote)


def _most_frequent_move(
    context: TurnContext, moving: Sequence[Candidate], kinds: Sequence[str]
) -> Candidate:
    """Return the first candidate with the most frequent move."""
    keys = [_move_key(context.observation.camera, candidate, kinds) for candidate in moving]
    most_frequent = Counter(keys).most_common(1)[0][0]
    return moving[keys.index(most_frequent)]


def _move_key(before: Camera, candidate: Candidate, kinds: Sequence[str]) -> Hashable:
    """Return the key by which moves are counted: the rounded change of pose, and the requested view."""
    action, after = candidate.action, candidate.camera
    assert isinstance(action, Action), "candidate must be readable"
    turn_steps = round(((after.yaw - before.yaw) % 360) / POSE_STEP_DEGREES) % round(
        360 / POSE_STEP_DEGREES
    )
    tilt_steps = round((after.pitch - before.pitch) / POSE_STEP_DEGREES)
    pairs = zip(after.position, before.position, strict=True)
    position_steps = tuple(round((end - start) / POSE_STEP_METRES) for end, start in pairs)
    view = action.view if action.view is not None or not kinds else kinds[0]
    return turn_steps, tilt_steps, position_steps, view


def _ends(candidate: Candidate, context: TurnContext) -> bool:
    """Return True if the candidate is done and an answer exists, from this turn or an earlier one."""
    action = candidate.action
    assert isinstance(action, Action), "candidate must be readable"
    return action.done and _answer(candidate, context) is not None


def _answer(candidate: Candidate, context: TurnContext) -> str | None:
    """Return the candidate's answer; if it has none, the most recent earlier one."""
    return candidate.action.answer or context.state.answer


def ballot(
    question: Question,
    votes: Sequence[str | None],  # canonical answer of each sample; None if it gave none
) -> Ballot | None:
    """Count the votes on an answer; the question's metric determines the winner. None if no sample has an answer."""
    answers = [vote for vote in votes if vote is not None]
    if not answers:
        return None
    winner, expected_score = metric_of(question).vote(answers)
    return Ballot(
        votes=tuple(votes),
        winner=winner,
        agreement=sum(vote.lower() == winner.lower() for vote in answers) / len(answers),
        expected=expected_score,
        spread=statistics.pstdev(map(float, answers)) if question.answer_form == "number" else None,
    )
