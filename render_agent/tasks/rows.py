"""A row in VSI-Bench's format becomes a `Question`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.dialogue.answer import AnswerForm
from render_agent.dialogue.question import MAX_QUESTION_LETTERS, Question, StartPose
from render_agent.errors import QuestionsError
from render_agent.tasks.question_types import ANSWER_FORMS, TYPES
from render_agent.util.numbers import is_number
from render_agent.util.reasons import short_repr
from render_agent.util.sanitize import is_plain

REQUIRED_COLUMNS = ("id", "dataset", "scene_name", "question_type", "question", "ground_truth")
"""What every row must have; `options` may be missing where a number is asked for."""

NAME_COLUMNS = ("id", "dataset", "scene_name")
"""Columns of names: files are called after them."""

Row = Mapping[str, Any]


def question_from_row(row: Row, benchmark: str, scan: Path | None) -> Question:
    """Return the question that a row in VSI-Bench's format asks.

    The text and the ground truth stay as they are written; the id and the name of the scene become
    texts. scan: the file of the scene, None where it is not known (yet). Errors: QuestionsError.
    """
    metric = row.get("metric")
    if metric is not None and metric not in registry.names("metric"):
        raise QuestionsError(
            f"the metric {short_repr(metric)} is unknown: it must be one of"
            f" {', '.join(registry.names('metric'))}"
        )
    missing = [column for column in REQUIRED_COLUMNS if row.get(column) is None]
    if missing:
        raise QuestionsError(
            f"the column {missing[0]!r} is missing: VSI-Bench's format has {REQUIRED_COLUMNS}"
        )
    if not str(row["question"]).strip():
        raise QuestionsError("the column 'question' is empty: write what is asked")
    for column in NAME_COLUMNS:
        check_name(column, str(row[column]))
    kind = str(row["question_type"])
    options = _options(row.get("options"))
    wanted = _wanted(kind, metric)
    truth, *others = _truths(row["ground_truth"], wanted)
    _check_form(kind, wanted, options, truth)
    question = Question(
        id=str(row["id"]),
        benchmark=benchmark,
        dataset=str(row["dataset"]),
        scene=str(row["scene_name"]),
        type=kind,
        text=str(row["question"]),
        wanted=wanted,
        options=options,
        truth=truth,
        scan=scan,
        pruned={"true": True, "false": False}.get(str(row.get("pruned")).lower()),
        metric=metric,
        answers=tuple(others),
        start=_start(row.get("start")),
    )
    if question.too_long:
        raise QuestionsError(f"the question has more than {MAX_QUESTION_LETTERS:,} letters")
    return question


def _truths(value: Any, wanted: AnswerForm) -> list[str]:
    """Return the answers that are right, a list where a text is wanted."""
    if not isinstance(value, list):
        return [str(value)]
    if not value or wanted != "text":
        raise QuestionsError(
            f"the ground truth {short_repr(value)} is a list: give a metric of texts, such as exact-match,"
            " beside it, and at least one text in it"
        )
    return [str(item) for item in value]


def _start(value: Any) -> StartPose | None:
    if value is None:
        return None
    numbers = [item for item in value if is_finite(item)] if isinstance(value, list) else []
    if len(numbers) != 4 or len(value) != 4:
        raise QuestionsError(
            f"the start {short_repr(value)} must be [x, y, z, yaw], metres in the scan's frame and degrees"
        )
    x, y, z, yaw = map(float, numbers)
    return StartPose((x, y, z), yaw)


def is_finite(value: Any) -> bool:
    """Whether a value is a number that is finite."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and abs(value) <= sys.float_info.max  # as no whole number need be


def check_name(column: str, text: str) -> None:
    """Raise QuestionsError where a question cannot go by this name; column: one of NAME_COLUMNS."""
    if not is_plain(text):  # names of dialogues, too, are made with a control character
        raise QuestionsError(
            f"the {column} {short_repr(text)} has a control character, or another that cannot be seen:"
            " leave it out"
        )


def _wanted(kind: str, metric: str | None) -> AnswerForm:
    """Return the form of an answer, by the metric that a row names, or by that of its type."""
    if metric is not None:
        form: AnswerForm = registry.load("metric", metric).form
        return form
    if kind not in ANSWER_FORMS:
        raise QuestionsError(
            f"the question type {short_repr(kind)} is unknown: it must be one of"
            f" {', '.join(TYPES)}, or its row must name a metric"
        )
    return ANSWER_FORMS[kind]


def _check_form(kind: str, wanted: AnswerForm, options: Sequence[str], truth: str) -> None:
    """Raise QuestionsError unless options and truth fit the form of the answer."""
    if wanted == "letter":
        if not options:
            raise QuestionsError(f"a question of type {kind} wants a letter and must have options")
        if truth not in [option[:1] for option in options]:
            raise QuestionsError(
                f"the ground truth {short_repr(truth)} is the letter of none of the options"
            )
    elif options:
        raise QuestionsError(f"a question of type {kind} wants a {wanted} and has no options")
    elif wanted == "number" and not is_number(truth):
        raise QuestionsError(
            f"the ground truth {short_repr(truth)} is no number, as {kind} wants one"
        )


def _options(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    lettered = isinstance(value, list) and all(
        isinstance(option, str) and option.startswith(f"{chr(ord('A') + index)}.")
        for index, option in enumerate(value)
    )
    if not lettered:
        raise QuestionsError(
            f"the options must be a list such as ['A. left', ...], not {short_repr(value)}"
        )
    return tuple(value)
