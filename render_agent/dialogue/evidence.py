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
    """One verifier's scores of the weighed candidates.

    Attributes:
        verifier: The verifier as written in `--verifier`.
        members: Name of each row of `scores`.
        scores: One row per member, one column per candidate in the order of `Evidence.weighed`; None if the
            member could not score the candidate. Comparable within this turn and this member only.
        reasons: For each candidate, the basis of its score or the reason it has none; may be empty.
    """

    verifier: str
    members: tuple[str, ...]
    scores: tuple[tuple[Number | None, ...], ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote on the answer.

    Attributes:
        votes: The answer of each sample; None if it gave none.
        winner: The chosen answer.
        agreement: Fraction of the answers that equal the winner.
        expected: The winner's mean score, with each vote in turn taken as the ground truth.
        spread: Standard deviation of numeric votes; None for other answers.
    """

    votes: tuple[str | None, ...]
    winner: str
    agreement: UnitInterval
    expected: Finite
    spread: Finite | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """The candidates of a turn, the chosen one, and the reasons for the choice.

    Attributes:
        agent: The agent as written in `--agent`.
        candidates: All candidates, numbered from 0.
        chosen: Number of the chosen candidate.
        weighed: Numbers of the candidates that verifiers scored, in the order of the scores.
        judgements: One per verifier.
        fused: Fused score of each weighed candidate; empty if no verifier gave a score.
        ballot: The vote on the answer, if there was one.
        wordings: The question's text for each group; empty if there is only one wording.
        tokens: Tokens that the verifiers used in this turn.
        calls: Model calls beyond that of the first reply; a shared call counts fractionally.

    Raises:
        ValueError: A number refers to no candidate, or the scores do not match `weighed` in length.
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
