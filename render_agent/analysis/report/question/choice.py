"""How a turn was chosen, as a page shows it: candidates, their views, scores, votes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from render_agent.analysis.diagnosis.path import limited
from render_agent.analysis.report.maps.path_marks import where
from render_agent.analysis.report.question.action_text import action_words
from render_agent.dialogue.candidates import Standing, how_chosen, members, standings
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.state import Evidence, Turn
from render_agent.geometry.camera import Camera

Size = tuple[int, int]


@dataclass(frozen=True, slots=True)
class CandidatePart:
    """A candidate as a page shows it.

    name: its number from 1. words: where it leads. asked: what it asked for. stopped: what happened where
    that is less, else None.
    """

    standing: Standing
    name: str
    words: str
    asked: list[str]
    malformed: bool
    stopped: str | None

    @property
    def file(self) -> str | None:
        """The picture of what it would show, None where that was not drawn."""
        view = self.standing.candidate.view
        return None if view is None else view.file


@dataclass(frozen=True, slots=True)
class ChoicePart:
    """How a turn was decided.

    how: in a sentence. columns: who scored. size: of the pictures, pixels.
    """

    evidence: Evidence
    how: str
    columns: tuple[str, ...]
    candidates: tuple[CandidatePart, ...]
    size: Size

    @property
    def votes(self) -> list[tuple[str, int]]:
        """The answers and how many gave each, the commonest first."""
        votes = self.evidence.ballot.votes if self.evidence.ballot else ()
        return Counter("no answer" if vote is None else vote for vote in votes).most_common()

    @property
    def explained(self) -> bool:
        """Whether a verifier said something beside its scores, or a candidate was left out."""
        return any(row.standing.reasons or row.standing.why for row in self.candidates)

    @property
    def others(self) -> list[CandidatePart]:
        """The candidates whose replies are not the turn's own."""
        return [row for row in self.candidates if not row.standing.chosen]


def choice_part(turn: Turn, size: Size) -> ChoicePart | None:
    """Return how a turn was decided, None where it had one reply; size: of the pictures, pixels."""
    evidence = turn.evidence
    if evidence is None:
        return None
    return ChoicePart(
        evidence,
        how_chosen(evidence),
        tuple(member.label for member in members(evidence)),
        tuple(_candidate(standing, turn.stood) for standing in standings(evidence)),
        size,
    )


def _candidate(standing: Standing, stood: Camera) -> CandidatePart:
    candidate = standing.candidate
    short = limited(candidate.action, stood, candidate.camera) and candidate.goes_on
    return CandidatePart(
        standing=standing,
        name=standing.name,
        words=where(candidate.camera),
        asked=action_words(candidate.action),
        malformed=isinstance(candidate.action, Malformed),
        stopped=candidate.feedback if short else None,
    )
