"""The page of one question: what was asked, what was seen, said and done, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from render_agent.analysis.diagnosis.model import Cause, Diagnosis, NamedBox
from render_agent.analysis.report.data import page_of
from render_agent.analysis.report.maps.floor_plan import Plan
from render_agent.analysis.report.maps.path_marks import (
    MapMarks,
    TurnMarks,
    candidate_marks,
    marks,
    name_of,
)
from render_agent.analysis.report.question.turns import (
    MessagePart,
    Seeing,
    TurnPart,
    message_parts,
    seeing,
    turn_parts,
    well_seen,
)
from render_agent.analysis.report.words import outcome, type_words
from render_agent.config import RunConfig
from render_agent.dialogue.answer import letters
from render_agent.dialogue.chat import encodable
from render_agent.dialogue.state import Question, QuestionState
from render_agent.score.official import CHOICE_TYPES
from render_agent.web.templates import environment

LONG = 160
"""A question of more characters is set smaller."""

STATUS = {
    "active": "not finished",
    "answered": "answered: it said done",
    "exhausted": "out of turns: its last answer counts",
    "failed": "failed",
    "missing": "its scan is missing",
}
"""What a status means."""


@dataclass(frozen=True, slots=True)
class OptionPart:
    """A choice, and whether it is the truth and the answer."""

    text: str
    truth: bool
    given: bool


@dataclass(frozen=True, slots=True)
class QuestionPart:
    """What a page needs of one question in one run.

    outcome: `right`, `wrong` or `open`. score: percent. why: its cause in words, None where it was not
    diagnosed. mirrored: what is right in the mirrored room where that is another answer, "" where
    nobody can tell, None where the truth is the same. candidates: poses that were not taken, over the plan. passive: whether its views were chosen for
    it, and shown at once.
    """

    state: QuestionState
    row: Mapping[str, Any]
    diagnosis: Diagnosis | None
    outcome: str
    score: float | None
    why: str | None
    mirrored: str | None
    options: tuple[OptionPart, ...]
    turns: tuple[TurnPart, ...]
    plan: Plan | None
    marks: MapMarks | None
    candidates: tuple[TurnMarks, ...]
    seeing: Seeing | None
    messages: tuple[MessagePart, ...]
    passive: bool
    max_turns: int
    size: tuple[int, int]

    @property
    def question(self) -> Question:
        """The question."""
        return self.state.question

    @property
    def type(self) -> str:
        """Its type in words."""
        return type_words(self.question.type)

    @property
    def status(self) -> str:
        """How it ended, in words."""
        return STATUS[str(self.state.status)]

    @property
    def long(self) -> bool:
        """Whether its text is long."""
        return len(self.question.text) > LONG

    @property
    def named_boxes(self) -> list[str]:
        """The named boxes with their middle and size in metres, in words."""
        boxes = () if self.diagnosis is None else self.diagnosis.boxes
        return [f"{name_of(box, boxes)}: {_placed(box)}" for box in boxes]

    @property
    def error(self) -> str | None:
        """The error that stopped it, its last line."""
        return None if self.state.error is None else self.state.error.strip().splitlines()[-1]


def question_part(
    state: QuestionState,
    row: Mapping[str, Any],
    diagnosis: Diagnosis | None,
    plan: Plan | None,
    config: RunConfig,
) -> QuestionPart:
    """Return what a page needs of a question; row: of the results; config: of its run."""
    size, passive = config.image_size, config.passive
    well = well_seen(diagnosis, size)
    return QuestionPart(
        state=state,
        row=row,
        diagnosis=diagnosis,
        outcome=outcome(row),
        score=None if row["score"] is None else 100 * row["score"],
        why=None if diagnosis is None else cause_words(diagnosis, config),
        mirrored=_mirrored(state.question, config) if config.picture_stress.changes_truth else None,
        options=_options(state),
        turns=tuple(turn_parts(state, size, diagnosis)),
        plan=plan,
        marks=None
        if plan is None
        else marks(state, plan, size, diagnosis, passive=passive, well_seen=well),
        candidates=() if plan is None else candidate_marks(state, plan),
        seeing=seeing(state, diagnosis, size, passive=passive),
        messages=tuple(message_parts(state)),
        passive=passive,
        max_turns=state.max_turns,
        size=size,
    )


def page_of_part(
    frame: Mapping[str, Any], part: QuestionPart, beside: tuple[str | None, str | None]
) -> str:
    """Return the page of a question as HTML; it lies one folder below the index.

    frame: what all pages of the run share. beside: the ids of the questions before and after it in the
    order of the run.
    """
    before, after = (None if other is None else _file(other) for other in beside)
    page = environment("analysis/report").get_template("question.html")
    found: str = page.render(
        frame, root="../", pictures="../../", q=part, before=before, after=after
    )
    return encodable(found)


def cause_words(diagnosis: Diagnosis, config: RunConfig) -> str:
    """Return why a question went as it did, with what it never saw or why nobody can tell."""
    if diagnosis.cause is Cause.UNKNOWN and config.blind:
        return "unknown: it was shown nothing"
    if diagnosis.cause is Cause.UNKNOWN and not config.faithful:
        return "unknown: its pictures did not show its scene"
    lacking = ", ".join(_missed(diagnosis, config.image_size))
    if lacking and diagnosis.cause is Cause.RIGHT:
        return f"right, without having seen well: {lacking}"
    if lacking and diagnosis.cause not in (Cause.ERROR, Cause.OPEN):
        return f"{diagnosis.cause} (never seen well: {lacking})"
    return str(diagnosis.cause)


def _missed(diagnosis: Diagnosis, size: tuple[int, int]) -> list[str]:
    """Return what was never seen well: a category, or its boxes where others of it were (when counting)."""
    seen = well_seen(diagnosis, size)
    boxes = list(enumerate(diagnosis.boxes))
    missed: list[str] = []
    for category in diagnosis.never_seen:
        own = [(number, box) for number, box in boxes if box.category == category]
        some = any(number in seen for number, _ in own)
        left = [name_of(box, diagnosis.boxes) for number, box in own if number not in seen]
        missed += left if some else [category]
    return missed


def natural_neighbours(
    states: Sequence[QuestionState],
) -> dict[str, tuple[str | None, str | None]]:
    """Return the ids before and after every question."""
    ids = [None, *(state.id for state in states), None]
    return {state.id: (ids[n], ids[n + 2]) for n, state in enumerate(states)}


def _file(question_id: str) -> str:
    return PurePosixPath(page_of(question_id)).name


def _options(state: QuestionState) -> tuple[OptionPart, ...]:
    question = state.question
    if question.type not in CHOICE_TYPES and not question.options:
        return ()
    return tuple(
        OptionPart(text, _is(letter, question.truth), _is(letter, state.answer))
        for letter, text in zip(letters(question.options), question.options, strict=False)
    )


def _placed(box: NamedBox) -> str:
    middle, size = (
        separator.join(f"{value:.2f}" for value in values)
        for separator, values in ((", ", box.centre), (" × ", box.size))
    )
    return f"middle ({middle}) m, size {size} m"


def _mirrored(question: Question, config: RunConfig) -> str | None:
    """Return what is right in the mirrored room, None where it is the truth itself."""
    if question.truth is None:
        return None
    found = config.picture_stress.truth(question)
    return None if found == question.truth else found or ""


def _is(letter: str, given: str | None) -> bool:
    return given is not None and given.strip().upper() == letter
