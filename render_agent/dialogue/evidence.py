"""Why a turn went as it did: its candidates, the verifiers' scores, the vote."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import Struct

from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.reply import Action, ReadReply
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import Count, Finite, NotNegative, Number, Share


class Candidate(Struct, frozen=True):
    """A reply that could have been the turn's, and what it would have led to.

    Attributes:
        number: Counted from 0.
        reply: The reply, verbatim.
        action: What it asks for, or why it cannot be read.
        feedback: What the model would read next (`happened` in the log).
        camera: The pose after the action.
        outcome: What its move would do, as in `Turn`.
        view: The view that would be shown next, under the number that it would have; None if it was not drawn.
        group: Number of the wording of the question that it answers.
    """

    number: Count
    reply: str
    action: ReadReply
    feedback: str = msgspec.field(name="happened")
    camera: Camera
    outcome: Outcome | None = None
    view: View | None = None
    group: Count = 0

    @property
    def goes_on(self) -> bool:
        """Whether it could be read and does not end the dialogue."""
        return isinstance(self.action, Action) and not self.action.done


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one verifier said of the candidates that were weighed, in their order.

    scores: a row a member, None where it could not tell; they compare within this turn and this member
    only. reasons: why there is no score, or what it rests on; empty where nothing is to be said.
    """

    verifier: str
    members: tuple[str, ...]
    scores: tuple[tuple[Number | None, ...], ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote on the answer.

    votes: the answers, by sample, None where it gave none. winner: what was taken. agreement: the share
    of the answers that are the winner. expected: the score that the winner would have on the average,
    were the votes the truth in turn. spread: the standard deviation of numbers, None of others.
    """

    votes: tuple[str | None, ...]
    winner: str
    agreement: Share
    expected: Finite
    spread: Finite | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a turn went as it did: the candidates and what spoke for each.

    chosen: the number of the candidate that was taken. weighed: numbers of those that verifiers scored,
    in the order of the scores; fused has their fused scores, empty where there is none. wordings: the
    question as each group was asked it, where there are several. tokens: those of the turn that
    verifiers took. calls: of the model, beyond that of the turn's first reply, its share of each.
    ValueError where its parts speak of candidates that are not in it.
    """

    agent: str
    candidates: tuple[Candidate, ...]
    chosen: Count
    weighed: tuple[Count, ...] = ()
    judgements: tuple[Judgement, ...] = ()
    fused: tuple[Number, ...] = ()
    ballot: Ballot | None = None
    wordings: tuple[str, ...] = ()
    tokens: Tokens = Tokens()
    calls: NotNegative = 0.0

    def __post_init__(self) -> None:
        if [c.number for c in self.candidates] != list(range(len(self.candidates))):
            raise ValueError("candidates are not numbered from 0")
        if self.chosen >= len(self.candidates):
            raise ValueError("the candidate that is chosen is not there")
        if not set(self.weighed) <= set(range(len(self.candidates))):
            raise ValueError("a candidate that was weighed is not there")
        count = len(self.weighed)
        for judged in self.judgements:
            lengths = {len(judged.reasons), *map(len, judged.scores)}
            if lengths != {count} or len(judged.scores) != len(judged.members):
                raise ValueError(
                    f"the scores of {judged.verifier} do not fit the candidates weighed"
                )
        if len(self.fused) not in (0, count):
            raise ValueError("the fused scores do not fit the candidates weighed")
