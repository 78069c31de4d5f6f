"""How a turn was chosen, as a page shows it: candidates, their views, scores, votes, wordings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.analysis.diagnosis.path import limited
from render_agent.analysis.report.maps.path_marks import where
from render_agent.analysis.report.question.action_text import action_words
from render_agent.dialogue.candidates import Standing, group_means, how_chosen, members, standings
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.state import Evidence, Turn
from render_agent.geometry.camera import Camera

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CandidatePart:
    """A candidate as a page shows it.

    name: its number from 1, behind that of the move that it goes on from. words: where it leads. asked:
    what it asked for. stopped: what happened where that is less, else None. wording: the number of its
    wording from 1, None where there is one. further: the moves that go on from it.
    """

    standing: Standing
    name: str
    words: str
    asked: list[str]
    malformed: bool
    stopped: str | None
    wording: int | None
    further: tuple[CandidatePart, ...] = ()

    @property
    def file(self) -> str | None:
        """The picture of what it would show, None where that was not drawn."""
        view = self.standing.candidate.view
        return None if view is None else view.file


@dataclass(frozen=True, slots=True)
class WordingPart:
    """A wording of the question: its number from 1, its text, the mean score of its candidates."""

    number: int
    text: str
    mean: float | None


@dataclass(frozen=True, slots=True)
class ChoicePart:
    """How a turn was decided.

    how: in a sentence. columns: who scored. candidates: those of the turn itself. size: of their
    pictures, pixels.
    """

    evidence: Evidence
    how: str
    columns: tuple[str, ...]
    candidates: tuple[CandidatePart, ...]
    size: Size
    wordings: tuple[WordingPart, ...]

    @property
    def votes(self) -> list[tuple[str, int]]:
        """The answers and how many gave each, the commonest first."""
        votes = self.evidence.ballot.votes if self.evidence.ballot else ()
        return Counter("no answer" if vote is None else vote for vote in votes).most_common()

    @property
    def rows(self) -> list[CandidatePart]:
        """All candidates in order, each behind the one that it goes on from."""
        return [row for candidate in self.candidates for row in (candidate, *candidate.further)]

    @property
    def explained(self) -> bool:
        """Whether a verifier said something beside its scores, or a candidate was left out."""
        return any(row.standing.reasons or row.standing.why for row in self.rows)

    @property
    def others(self) -> list[CandidatePart]:
        """The candidates whose replies are not the turn's own."""
        return [row for row in self.rows if not row.standing.chosen]


def choice_part(turn: Turn, size: Size, wordings: Sequence[str]) -> ChoicePart | None:
    """Return how a turn was decided, None where it had one reply.

    size: of the pictures, pixels. wordings: of the question, where there are several.
    """
    evidence = turn.evidence
    if evidence is None:
        return None
    entries = standings(evidence)
    several = len(wordings) > 1
    means = group_means(evidence)
    own = [standing for standing in entries if standing.candidate.follows is None]
    return ChoicePart(
        evidence,
        how_chosen(evidence),
        tuple(member.label for member in members(evidence)),
        tuple(_candidate(entry, turn.stood, entries, several=several) for entry in own),
        size,
        tuple(
            WordingPart(number + 1, text, means.get(number))
            for number, text in enumerate(wordings if several else ())
        ),
    )


def _candidate(
    standing: Standing,
    stood: Camera,
    entries: Sequence[Standing],
    *,
    several: bool,
    before: str = "",
) -> CandidatePart:
    candidate = standing.candidate
    name = f"{before} then {standing.name}" if before else standing.name
    short = limited(candidate.action, stood, candidate.camera) and candidate.goes_on
    return CandidatePart(
        standing=standing,
        name=name,
        words=where(candidate.camera),
        asked=action_words(candidate.action),
        malformed=isinstance(candidate.action, Malformed),
        stopped=candidate.feedback if short else None,
        wording=candidate.group + 1 if several else None,
        further=tuple(
            _candidate(other, candidate.camera, entries, several=False, before=name)
            for other in entries
            if other.candidate.follows == candidate.number
        ),
    )
