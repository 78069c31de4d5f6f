"""Lines of `turns.jsonl` (turns, and errors that stopped a question) and of `questions.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from render_agent import registry
from render_agent.dialogue.question import MAX_QUESTION_CHARS, OMITTED_IF_EMPTY, Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import OPTIONAL_FIELDS, Failure, LogLine, Turn
from render_agent.util.atomic_files import json_lines
from render_agent.util.reasons import short_repr
from render_agent.util.safe_parse import ValidationError, convert, decode_json, to_plain
from render_agent.util.sanitize import is_plain


class _Head(Struct):
    error: str | None = None


def read_line(text: bytes) -> LogLine:
    """Parse a line of `turns.jsonl`. Raises ValidationError, which names the field, for an invalid line, and ValueError
    for anything else.
    """
    head: _Head = decode_json(text, _Head)
    line: LogLine = decode_json(text, Turn if head.error is None else Failure)
    return line


def line_to_json(line: LogLine) -> dict[str, Any]:
    """Convert to a line of `turns.jsonl`. Errors have the same fields as turns, but empty."""
    fields: dict[str, Any] = to_plain(line)
    if isinstance(line, Turn):
        return {k: value for k, value in fields.items() if value or k not in OPTIONAL_FIELDS}
    del fields["of_scene"]
    empty = {k: None for k in Turn.__struct_encode_fields__ if k not in OPTIONAL_FIELDS}
    return empty | {"views": [], "messages": []} | fields


def replay(lines: Iterable[LogLine], states: Mapping[str, QuestionState]) -> None:
    """Apply all logged lines to the states of their questions. Raises ValueError.

    A question whose last line is an error remains failed.
    """
    for number, line in enumerate(lines, start=1):
        state = states.get(line.question_id)
        if state is None:
            raise ValueError(f"line {number}: there is no question {short_repr(line.question_id)}")
        try:
            if isinstance(line, Failure):
                state.fail(line.error, line.events, line.tokens)
            else:
                state.retry()
                state.take(line)
        except ValueError as error:
            raise ValueError(f"line {number} does not fit: {error}") from error


# fields of a question that `questions.jsonl` stores under other names
SAVED_NAMES = {"text": "question", "ground_truth": "truth", "answer_form": "wanted"}
_FIELDS = {name: field for field, name in SAVED_NAMES.items()}


def question_to_json(question: Question) -> dict[str, Any]:
    """Convert to a line of `questions.jsonl`."""
    values = to_plain(question).items()
    return {
        SAVED_NAMES.get(name, name): value
        for name, value in values
        if value or name not in OMITTED_IF_EMPTY
    }


def questions_text(questions: Iterable[Question]) -> bytes:
    """Return the content of `questions.jsonl`."""
    return json_lines(question_to_json(question) for question in questions)


def question_from_json(line: Any) -> Question:
    """Parse a line written by `question_to_json`. Raises ValidationError if it is invalid."""
    if isinstance(line, dict):
        line = {_FIELDS.get(name, name): value for name, value in line.items()}
    try:
        question: Question = convert(line, Question)
    except ValidationError as error:
        reason = str(error)
        for field, name in SAVED_NAMES.items():
            reason = reason.replace(f"{field}`", f"{name}`")
        raise ValidationError(reason) from None
    for name in ("id", "dataset", "scene"):
        if not is_plain(getattr(question, name)):
            raise ValidationError(f"{name} {short_repr(getattr(question, name))} is not printable")
    if question.is_too_long:
        raise ValidationError(f"question has more than {MAX_QUESTION_CHARS:,} characters")
    if question.metric is not None and question.metric not in registry.names("metric"):
        raise ValidationError(f"metric {short_repr(question.metric)} is unknown")
    if question.answer_form == "letter" and not question.options:
        raise ValidationError("it requires a letter but has no options")
    return question
