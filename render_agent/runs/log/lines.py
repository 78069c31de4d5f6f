"""Lines of `turns.jsonl` (a turn, or the error that stopped its question) and of `questions.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import Struct, field

from render_agent import registry
from render_agent.dialogue.question import MAX_QUESTION_LETTERS, Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Phase, Turn
from render_agent.util.reasons import short_repr
from render_agent.util.safe_parse import Count, MisfitError, convert, decode, plain
from render_agent.util.sanitize import is_plain

LEFT_OUT_EMPTY = ("evidence", "sha256", "scan", "probe")
"""Fields of a turn that its line omits when they are empty."""


class Head(Struct, frozen=True):
    """The fields that the lines of a turn and of an error share.

    error: what stopped the question before its turn `number`; None for a turn. events: kinds of engine faults on the
    way to the reply.
    """

    question_id: str
    number: Count = field(name="turn")
    phase: Phase
    error: str | None
    events: tuple[str, ...] = ()


class Failed(Head, frozen=True):
    """An error that stopped a question; it is asked again when the run is continued.

    of_scene: whether its scan or a view of it was to blame; not logged.
    """

    of_scene: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """A line of `turns.jsonl`; turn: None if an error stopped the question."""

    head: Head
    turn: Turn | None


def read_line(text: bytes) -> Line:
    """Parse a line of `turns.jsonl`. ValueError if it is not one, MisfitError naming the field."""
    head: Head = decode(text, Head)
    return Line(head, None if head.error is not None else decode(text, Turn))


def turn_to_json(question_id: str, turn: Turn) -> dict[str, Any]:
    """Return the line of a turn: everything needed to rebuild the state and to audit the turn."""
    line = {"question_id": question_id, **plain(turn), "error": None}
    for name in LEFT_OUT_EMPTY:
        if not line[name]:
            del line[name]
    return line


def error_to_json(failed: Failed) -> dict[str, Any]:
    """Return the line of an error; it has the fields of a turn, empty."""
    empty = dict.fromkeys(
        name for name in Turn.__struct_encode_fields__ if name not in LEFT_OUT_EMPTY
    )
    empty |= {"views": [], "messages": []}
    return {"question_id": "", **empty} | {
        name: plain(failed)[name] for name in Head.__struct_encode_fields__
    }


def replay(lines: Iterable[Line], states: Mapping[str, QuestionState]) -> None:
    """Apply every logged turn to its state. ValueError if a line does not fit its question.

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
    """Return the question that `question_to_json` wrote. MisfitError if it is not one."""
    if isinstance(line, dict):
        line = {("text" if name == "question" else name): value for name, value in line.items()}
    try:
        question: Question = convert(line, Question)
    except MisfitError as error:
        raise MisfitError(str(error).replace("text`", "question`")) from None
    for name in ("id", "dataset", "scene"):
        if not is_plain(getattr(question, name)):
            raise MisfitError(f"{name} {short_repr(getattr(question, name))} is not printable")
    if question.too_long:
        raise MisfitError(f"question has more than {MAX_QUESTION_LETTERS:,} letters")
    if question.metric is not None and question.metric not in registry.names("metric"):
        raise MisfitError(f"metric {short_repr(question.metric)} is unknown")
    if question.wanted == "letter" and not question.options:
        raise MisfitError("it wants a letter and has no options")
    return question
