"""Converts rows in VSI-Bench's format to `Question` objects."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.dialogue.answer import AnswerForm
from render_agent.dialogue.question import MAX_QUESTION_CHARS, Question, StartPose
from render_agent.errors import QuestionsError
from render_agent.tasks.question_types import ANSWER_FORMS, TYPES
from render_agent.util.numbers import is_number
from render_agent.util.reasons import short_repr
from render_agent.util.sanitize import is_plain

# columns required in every row; multiple-choice questions also need `options`
REQUIRED_COLUMNS = ("id", "dataset", "scene_name", "question_type", "question", "ground_truth")

NAME_COLUMNS = ("id", "dataset", "scene_name")  # columns used in file names

Row = Mapping[str, Any]


def question_from_row(
    row: Row,
    benchmark: str,
    scan: Path | None,  # file of the scene; None if it is not known yet
) -> Question:
    """Convert a row in VSI-Bench's format to a question."""
    metric = row.get("metric")
    if metric is not None and metric not in registry.names("metric"):
        raise QuestionsError(
            f"unknown metric {short_repr(metric)}. Use one of {', '.join(registry.names('metric'))}."
        )
    missing_columns = [column for column in REQUIRED_COLUMNS if row.get(column) is None]
    if missing_columns:
        raise QuestionsError(
            f"column {missing_columns[0]!r} is missing. VSI-Bench's format requires {', '.join(REQUIRED_COLUMNS)}."
        )
    for column in (*NAME_COLUMNS, "question_type", "question"):
        value = row[column]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise QuestionsError(
                f"column {column!r} must be a text or a number, not {short_repr(value)}"
            )
        if not str(value).strip():
            raise QuestionsError(f"column {column!r} is empty")
    for column in NAME_COLUMNS:
        check_name(column, str(row[column]))
    kind = str(row["question_type"])
    options = _options(row.get("options"))
    form = _answer_form(kind, metric)
    truth, *other_answers = _correct_answers(row["ground_truth"], form)
    _check_form(kind, form, options, truth)
    question = Question(
        id=str(row["id"]),
        benchmark=benchmark,
        dataset=str(row["dataset"]),
        scene=str(row["scene_name"]),
        type=kind,
        text=str(row["question"]),
        answer_form=form,
        options=options,
        ground_truth=truth,
        scan=scan,
        pruned={"true": True, "false": False}.get(str(row.get("pruned")).lower()),
        metric=metric,
        answers=tuple(other_answers),
        start=_start(row.get("start")),
    )
    if question.is_too_long:
        raise QuestionsError(f"the question has more than {MAX_QUESTION_CHARS:,} characters")
    return question


def _correct_answers(value: Any, form: AnswerForm) -> list[str]:
    """Return the correct answers; only text questions may have several."""
    for item in value if isinstance(value, list) else [value]:
        if item is None or (isinstance(item, float) and not math.isfinite(item)):
            raise QuestionsError(
                f"ground truth {short_repr(value)} must be a finite number or a text"
            )
    if not isinstance(value, list):
        return [str(value)]
    if not value or form != "text":
        raise QuestionsError(
            f"ground truth {short_repr(value)}: a list needs at least one entry, and a text metric such as"
            " exact-match in the column 'metric'"
        )
    return [str(item) for item in value]


def _start(value: Any) -> StartPose | None:
    if value is None:
        return None
    numbers = [item for item in value if is_finite(item)] if isinstance(value, list) else []
    if len(numbers) != 4 or len(value) != 4:
        raise QuestionsError(
            f"start must be [x, y, z, yaw] in metres (scan's frame) and degrees, not {short_repr(value)}"
        )
    x, y, z, yaw = map(float, numbers)
    return StartPose((x, y, z), yaw)


def is_finite(value: Any) -> bool:
    """Return True for a finite number that fits into a float, but not for a boolean."""
    is_numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return is_numeric and abs(value) <= sys.float_info.max  # integers can be larger than any float


def check_name(column: str, text: str) -> None:
    """Raise QuestionsError if a name contains control or invisible characters."""
    if not is_plain(text):  # ids of side dialogues use a control character as separator
        raise QuestionsError(
            f"{column} {short_repr(text)} contains a control character or an invisible character. Remove it."
        )


def _answer_form(kind: str, metric: str | None) -> AnswerForm:
    """Return the answer form, which follows from the row's metric or else from the question type."""
    if metric is not None:
        form: AnswerForm = registry.load("metric", metric).form
        return form
    if kind not in ANSWER_FORMS:
        raise QuestionsError(
            f"unknown question type {short_repr(kind)}. Use one of {', '.join(TYPES)}, or add a column"
            " 'metric'."
        )
    return ANSWER_FORMS[kind]


def _check_form(kind: str, form: AnswerForm, options: Sequence[str], truth: str) -> None:
    """Raise QuestionsError if options or ground truth do not match the answer form."""
    if form == "letter":
        if not options:
            raise QuestionsError(f"question type {kind} requires options")
        if truth not in [option[:1] for option in options]:
            raise QuestionsError(
                f"ground truth {short_repr(truth)} is not the letter of any option"
            )
    elif options:
        raise QuestionsError(f"question type {kind} expects a {form} and must not have options")
    elif form == "number" and not (is_number(truth) and math.isfinite(float(truth))):
        raise QuestionsError(
            f"ground truth {short_repr(truth)} must be a finite number for question type {kind}"
        )


def _options(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    has_letters = isinstance(value, list) and all(
        isinstance(option, str) and option.startswith(f"{chr(ord('A') + index)}.")
        for index, option in enumerate(value)
    )
    if not has_letters:
        raise QuestionsError(
            f"options must be a list such as ['A. left', ...], not {short_repr(value)}"
        )
    return tuple(value)
