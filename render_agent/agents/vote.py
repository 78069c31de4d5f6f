"""The agent that has several samples of every reply vote: on the answer, or on the move."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from render_agent.agents.ballot import ballot
from render_agent.agents.base import Ask, Steps
from render_agent.agents.candidates import default_candidate, read_candidates
from render_agent.agents.rerank import decision
from render_agent.agents.verifiers.base import Situation
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import Ballot, Candidate, Evidence
from render_agent.engines.base import Reply, Request
from render_agent.geometry.camera import Camera

DEGREES = 15.0
METRES = 0.25
"""Moves are equal that lead to the same pose, counted in such steps from where the camera stands."""


@dataclass(frozen=True)
class Vote:
    """Takes what most of several samples of one request say; those that cannot be read have no vote.

    The dialogue ends where more than half of them end it, or in the last turn: with the answer that wins
    among those that then answer, whichever sample is fed back. Else the move is made that most of the
    others ask for, of several the one that came first. name: as `--agent` has it. kinds: the kinds of
    view that a reply may ask for.
    """

    name: str
    samples: int
    kinds: Sequence[str]

    def decide(self, situation: Situation, request: Request) -> Steps:
        """Ask for all samples at once, and let them vote."""
        replies: list[Reply] = yield Ask((replace(request, samples=self.samples),))
        candidates = read_candidates(situation, replies, self.kinds)
        readable = [c for c in candidates if isinstance(c.action, Action)]
        ending = [c for c in readable if _ends(c, situation)]
        told = None
        if situation.last or 2 * len(ending) > len(readable):
            voters = readable if situation.last else ending
            told = _outcome(situation, candidates, voters)
        if told is not None:
            chosen = _answering(situation, candidates, told)
        elif situation.last or not readable:
            chosen = default_candidate(situation, candidates)
        else:
            chosen = self._commonest(situation, [c for c in readable if c not in ending])
        evidence = Evidence(self.name, tuple(candidates), chosen.number, ballot=told)
        return decision(chosen, replies, evidence)

    def dialogues(self, question_id: str) -> Sequence[str]:
        """Return the one dialogue."""
        return (question_id,)

    def _commonest(self, situation: Situation, moving: Sequence[Candidate]) -> Candidate:
        """Return the first of those that lead where most do."""
        leads = [self._lead(situation.look.camera, candidate) for candidate in moving]
        commonest = Counter(leads).most_common(1)[0][0]
        return moving[leads.index(commonest)]

    def _lead(self, stood: Camera, candidate: Candidate) -> Hashable:
        """Return what is the same for moves that come to the same: pose and view, rounded."""
        action, there = candidate.action, candidate.camera
        assert isinstance(action, Action), "it could be read"
        turned = round(((there.yaw - stood.yaw) % 360) / DEGREES) % round(360 / DEGREES)
        tilted = round((there.pitch - stood.pitch) / DEGREES)
        pairs = zip(there.position, stood.position, strict=True)
        moved = tuple(round((to - from_) / METRES) for to, from_ in pairs)
        view = action.view if action.view is not None or not self.kinds else self.kinds[0]
        return turned, tilted, moved, view


def _ends(candidate: Candidate, situation: Situation) -> bool:
    """Whether it ends the dialogue: it says done, with an answer or with one standing from before."""
    action = candidate.action
    assert isinstance(action, Action), "it could be read"
    return action.done and _answer(candidate, situation) is not None


def _answer(candidate: Candidate, situation: Situation) -> str | None:
    """Return the answer that would stand after a candidate."""
    return candidate.action.answer or situation.state.answer


def _outcome(
    situation: Situation, candidates: Sequence[Candidate], voters: Sequence[Candidate]
) -> Ballot | None:
    """Return the outcome of a vote in which these have a vote each."""
    numbers = {candidate.number for candidate in voters}
    votes = [_answer(c, situation) if c.number in numbers else None for c in candidates]
    return ballot(situation.state.question, votes)


def _answering(situation: Situation, candidates: Sequence[Candidate], told: Ballot) -> Candidate:
    """Return the first sample that is nearest to the winner, with the winner as its answer."""
    voting = [c for c, vote in zip(candidates, told.votes, strict=True) if vote is not None]

    def off(candidate: Candidate) -> float:
        answer = _answer(candidate, situation)
        assert answer is not None, "it voted"
        if situation.state.question.wanted == "number":
            return abs(float(answer) - float(told.winner))
        return float(answer.lower() != told.winner.lower())

    nearest = min(voting, key=off)
    action = nearest.action
    assert isinstance(action, Action), "it voted"
    if _answer(nearest, situation) == told.winner:
        return nearest
    answered = structs.replace(action, answer=told.winner, answer_text=told.winner)
    return replace(nearest, action=answered)
