"""The lines of a run folder: of `turns.jsonl`, a turn or the error that stopped its question, and of `questions.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from msgspec import Struct, defstruct, field

from render_agent.dialogue.state import (
    MAX_QUESTION_LETTERS,
    Evidence,
    Phase,
    Question,
    QuestionState,
    Turn,
)
from render_agent.text.reasons import short_repr
from render_agent.text.safe_parse import Count, MisfitError, convert, decode, plain
from render_agent.text.sanitize import is_plain

LEFT_OUT_EMPTY = ("evidence", "sha256", "scan", "probe", "changed")
"""Of a turn, what its line has where there is any."""

OPTIONAL_FIELDS = ("events", *LEFT_OUT_EMPTY)
"""Of a turn, what not every line has."""


class Head(Struct, frozen=True):
    """What a turn's line and an error's line have in common.

    events: what went wrong in the engine on the way to the reply, by kind.
    """

    question_id: str
    number: Count = field(name="turn")
    phase: Phase
    error: str | None
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of `turns.jsonl`; turn: None where an error stopped the question."""

    head: Head
    turn: Turn | None


@dataclass(frozen=True, slots=True)
class Failed:
    """An error stopped a question before its turn `turn`; it is asked again from there when the run goes on.

    events: the engine's before it. of_scene: whether its scan or a view of it was to blame.
    """

    question_id: str
    turn: int
    phase: Phase
    error: str
    events: tuple[str, ...] = ()
    of_scene: bool = False


_EvidencePresent = defstruct("_EvidencePresent", [(entry.name, Any) for entry in fields(Evidence)])
_TurnPresent = defstruct(
    "_TurnPresent",
    [
        *((name, Any) for name in Turn.__struct_encode_fields__ if name not in OPTIONAL_FIELDS),
        ("evidence", _EvidencePresent | None, None),
    ],
)
"""What a turn's line must name, also where `Turn` has a default for whoever makes one."""


def read_line(text: bytes) -> Line:
    """Parse a line of `turns.jsonl`. ValueError where it is none, MisfitError naming the field."""
    head: Head = decode(text, Head)
    if head.error is not None:
        return Line(head, None)
    decode(text, _TurnPresent)
    return Line(head, decode(text, Turn))


def turn_to_json(question_id: str, turn: Turn) -> dict[str, Any]:
    """Return the line of a turn: all that is needed to rebuild the state and to audit the turn."""
    line = {"question_id": question_id, **plain(turn), "error": None}
    for name in LEFT_OUT_EMPTY:
        if not line[name]:
            del line[name]
    return line


def error_to_json(failed: Failed) -> dict[str, Any]:
    """Return the line of an error."""
    line = {
        "question_id": failed.question_id,
        "turn": failed.turn,
        "phase": failed.phase,
        "views": [],
        "messages": [],
        "events": list(failed.events),
    }
    nothing = [
        name for name in Turn.__struct_encode_fields__ if name not in (*line, *OPTIONAL_FIELDS)
    ]
    return line | dict.fromkeys(nothing) | {"error": failed.error}


def replay(lines: Iterable[Line], states: Mapping[str, QuestionState]) -> None:
    """Give every turn back to its state. ValueError where a line does not fit its question.

    A question whose last line is an error stays failed.
    """
    for number, line in enumerate(lines, start=1):
        head = line.head
        state = states.get(head.question_id)
        if state is None:
            raise ValueError(f"line {number}: there is no question {short_repr(head.question_id)}")
        try:
            if line.turn is not None:
                state.retry()
                state.take(line.turn)
            elif head.error is not None:
                state.fail(head.error, head.events)
        except ValueError as error:
            raise ValueError(f"line {number} does not fit: {error}") from error


def question_to_json(question: Question) -> dict[str, Any]:
    """Return the line of `questions.jsonl`."""
    values = plain(question).items()
    return {
        ("question" if name == "text" else name): value
        for name, value in values
        if value or name not in ("change", "left_out")
    }


def question_from_json(line: Any) -> Question:
    """Return the question that `question_to_json` wrote. MisfitError where it did not."""
    if isinstance(line, dict):
        line = {("text" if name == "question" else name): value for name, value in line.items()}
    try:
        question: Question = convert(line, Question)
    except MisfitError as error:
        raise MisfitError("question" if error.at == "text" else error.at, error.said) from None
    for name in ("id", "dataset", "scene"):
        if not is_plain(getattr(question, name)):
            raise MisfitError(
                name, f" {short_repr(getattr(question, name))} is none that a question can have"
            )
    if question.too_long:
        raise MisfitError("question", f" has more than {MAX_QUESTION_LETTERS:,} letters")
    if question.wanted == "letter" and not question.options:
        raise MisfitError("", " wants a letter and has no options")
    return question
