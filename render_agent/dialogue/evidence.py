"""The evidence behind a turn's reply: the candidates, the verifiers' scores and the vote."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec import Struct

from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.reply import Action, ParsedReply
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import Count, Finite, NotNegative, Number, UnitInterval


class Candidate(Struct, frozen=True):
    """A reply that the turn could have used, and its consequences."""

    number: Count
    reply: str
    action: ParsedReply
    feedback: str = msgspec.field(name="happened")
    camera: Camera
    outcome: Outcome | None = None
    view: View | None = None
    group: Count = 0

    @property
    def continues_dialogue(self) -> bool:
        """True if the reply was parsed and does not end the dialogue."""
        return isinstance(self.action, Action) and not self.action.done


@dataclass(frozen=True, slots=True)
class Judgement:
    """One verifier's scores of the weighed candidates."""

    verifier: str  # the verifier as written in `--verifier`
    members: tuple[str, ...]  # name of each row of `scores`
    scores: tuple[tuple[Number | None, ...], ...]
    """One row per member, one column per candidate in the order of `Evidence.weighed`; None if the member
    could not score the candidate. Comparable within this turn and this member only.
    """
    reasons: tuple[str, ...]
    """For each candidate, the basis of its score or the reason it has none; may be empty."""


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote on the answer."""

    votes: tuple[str | None, ...]  # the answer of each sample; None if it gave none
    winner: str
    agreement: UnitInterval  # fraction of the answers that equal the winner
    expected: Finite  # the winner's mean score, with each vote in turn taken as the ground truth
    spread: Finite | None = None  # standard deviation of numeric votes; None for other answers


@dataclass(frozen=True, slots=True)
class Evidence:
    """The candidates of a turn, the chosen one, and the reasons for the choice. Raises ValueError."""

    agent: str  # the agent as written in `--agent`
    candidates: tuple[Candidate, ...]
    chosen: Count
    weighed: tuple[Count, ...] = ()
    """Numbers of the candidates that verifiers scored, in the order of the scores."""
    judgements: tuple[Judgement, ...] = ()  # one per verifier
    fused: tuple[Number, ...] = ()
    """Fused score of each weighed candidate; empty if no verifier gave a score."""
    ballot: Ballot | None = None  # the vote on the answer, if there was one
    wordings: tuple[str, ...] = ()
    """The question's text for each group; empty if there is only one wording."""
    tokens: Tokens = Tokens()  # tokens that the verifiers used in this turn
    calls: NotNegative = 0.0
    """Model calls beyond that of the first reply; a shared call counts fractionally."""

    def __post_init__(self) -> None:
        if [c.number for c in self.candidates] != list(range(len(self.candidates))):
            raise ValueError("candidates are not numbered from 0")
        if self.chosen >= len(self.candidates):
            raise ValueError(f"chosen candidate {self.chosen} does not exist")
        if not set(self.weighed) <= set(range(len(self.candidates))):
            raise ValueError("a weighed candidate does not exist")
        count = len(self.weighed)
        for judgement in self.judgements:
            lengths = {len(judgement.reasons), *map(len, judgement.scores)}
            if lengths != {count} or len(judgement.scores) != len(judgement.members):
                raise ValueError(
                    f"number of scores by {judgement.verifier} differs from the number of weighed candidates"
                )
        if len(self.fused) not in (0, count):
            raise ValueError("number of fused scores differs from the number of weighed candidates")
