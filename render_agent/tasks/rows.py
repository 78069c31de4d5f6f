"""Converts rows in VSI-Bench's format to `Question` objects."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.dialogue.answer import (
    MAX_OPTIONS,
    AnswerForm,
    has_letter,
    letter_at,
    options_by_letter,
)
from render_agent.dialogue.question import (
    MAX_QUESTION_CHARS,
    Question,
    StartPose,
    format_pose,
    parse_pose,
)
from render_agent.errors import QuestionsError
from render_agent.options import VSIBENCH
from render_agent.tasks.question_types import TYPES, answer_form_of, parts_of, type_named
from render_agent.util.numbers import is_number
from render_agent.util.reasons import reason_of, short_repr
from render_agent.util.sanitize import is_plain

# columns required in every row; multiple-choice questions also need `options`, and VSI-Bench's questions `dataset`
REQUIRED_COLUMNS = ("id", "scene_name", "question_type", "question", "ground_truth")

OWN_DATASET = "own"  # of questions without a data set

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
    if benchmark != VSIBENCH and row.get("dataset") is None:
        row = {**row, "dataset": OWN_DATASET}
    missing_columns = [
        column for column in ("dataset", *REQUIRED_COLUMNS) if row.get(column) is None
    ]
    if missing_columns:
        raise QuestionsError(
            f"column {missing_columns[0]!r} is missing. Required are {', '.join(REQUIRED_COLUMNS)}, and in VSI-Bench's own"
            " files dataset."
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
    kind = type_named(kind) if metric is None else kind
    options = _options(row.get("options"))
    form = _answer_form(kind, metric)
    truth, *other_answers = _correct_answers(row["ground_truth"], form)
    _check_form(kind, form, options, truth)
    if form == "letter":
        truth = _letter_of(truth, options, row.get("options"))
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
    if form == "pose":
        return [_pose_text(value)]
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


def _pose_text(value: Any) -> str:
    pose = parse_pose(" ".join(map(str, value)) if isinstance(value, list) else str(value))
    if pose is None:
        raise QuestionsError(
            "ground truth must be a pose [x, y, z, yaw, pitch] in metres (scan's frame) and degrees, not"
            f" {short_repr(value)}"
        )
    return format_pose(pose)


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
    form_of_type = answer_form_of(kind)
    if form_of_type is None:
        parts = parts_of(kind)
        reason = "is a task of several types" if parts else "is unknown"
        raise QuestionsError(
            f"question type {short_repr(kind)} {reason}. Use one of {', '.join(parts or TYPES)}, or add a column 'metric'."
        )
    return form_of_type


def _check_form(kind: str, form: AnswerForm, options: Sequence[str], truth: str) -> None:
    """Raise QuestionsError if options or ground truth do not match the answer form."""
    if form == "letter":
        if not options:
            raise QuestionsError(f"question type {kind} requires options")
    elif options:
        raise QuestionsError(f"question type {kind} expects a {form} and must not have options")
    elif form == "number" and not (is_number(truth) and math.isfinite(float(truth))):
        raise QuestionsError(
            f"ground truth {short_repr(truth)} must be a finite number for question type {kind}"
        )


# A list of texts as Python or JSON writes it, or as numpy prints an array: ['A. left' 'B. right'], possibly on several lines.
_TEXT = r"""(?:'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+")"""
_TEXTS = re.compile(
    rf"(?:array\()?\[\s*+({_TEXT}(?:(?:\s*+,\s*+|\s++){_TEXT})*+)\s*+,?\s*+\](?:,\s*dtype=\S+\))?",
    re.DOTALL,
)

NO_OPTIONS = (
    "",
    "nan",
    "none",
    "null",
    "<na>",
    "[]",
)  # texts in a column of options, in lower case


def _options(value: Any) -> tuple[str, ...]:
    """Return the options with letters, which are added if none of them has one."""
    items = _texts_in(value) if isinstance(value, str) else value
    if items is None or items == [] or items != items:  # NaN
        return ()
    if not (isinstance(items, list) and all(isinstance(item, str) for item in items)):
        raise QuestionsError(
            f"options must be a list of texts such as ['A. left', 'B. right'], not {short_repr(value)}"
        )
    has_letters = all(item.startswith(f"{letter_at(index)}.") for index, item in enumerate(items))
    if any(map(has_letter, items)) and not has_letters:
        raise QuestionsError(
            f"the options {short_repr(items)} must have the letters A, B, … in this order, or none"
        )
    return add_letters(items)


def _texts_in(text: str) -> list[str] | None:
    """Return the texts of a printed list; None if it stands for no options."""
    if text.strip().lower() in NO_OPTIONS:
        return None
    try:
        if match := _TEXTS.fullmatch(text.strip()):
            return [ast.literal_eval(item[0]) for item in re.finditer(_TEXT, match[1], re.DOTALL)]
        reason = "it is not a list of quoted texts"
    except (ValueError, SyntaxError) as error:
        reason = reason_of(error)
    raise QuestionsError(f"options cannot be read from {short_repr(text)}: {reason}")


def add_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Add letters to options, unless all of them already have one. Raises QuestionsError."""
    if not all(option.strip() for option in options):
        raise QuestionsError("an option is empty")
    if len(options) == 1:
        raise QuestionsError("there is one option, but a question needs at least two")
    if len(options) > MAX_OPTIONS:
        raise QuestionsError(f"there are {len(options)} options, but at most {MAX_OPTIONS} letters")
    counts = Counter(map(str.strip, options))
    if repeated := next((option for option, count in counts.items() if count > 1), None):
        raise QuestionsError(f"option {short_repr(repeated)} is repeated. Remove the duplicate.")
    have_letters = [*map(has_letter, options)]
    if any(have_letters) and not all(have_letters):
        raise QuestionsError(
            f"only some of the options {short_repr(list(options))} have a letter. Letter all of them, or none."
        )
    texts = options_by_letter(options)
    if list(texts.values()) != [option.strip() for option in options]:
        return tuple(options)
    return tuple(f"{letter}. {text}" for letter, text in texts.items())


def _letter_of(truth: str, options: Sequence[str], value: Any) -> str:
    """Return the letter of a ground truth, which may be a letter or the text of an option."""
    by_text = [
        letter
        for letter, text in options_by_letter(options).items()
        if truth.strip().casefold() in (text.casefold(), f"{letter}. {text}".casefold())
    ]
    is_letter = truth in [option[:1] for option in options]
    if is_letter and (not by_text or by_text == [truth] or value == [*options]):
        return truth
    if len(by_text) == 1 and not is_letter:
        return by_text[0]
    problem = "is ambiguous: it is" if by_text else "is not"
    raise QuestionsError(
        f"ground truth {short_repr(truth)} {problem} the letter or the text of an option"
    )
