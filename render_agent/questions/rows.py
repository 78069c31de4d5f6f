"""Rows in VSI-Bench's format → Question, whatever benchmark they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.dialogue.answer import Wanted
from render_agent.dialogue.state import Question
from render_agent.errors import QuestionsError
from render_agent.questions.files import read_rows
from render_agent.score.official import CHOICE_TYPES, NUMBER_TYPES, is_number
from render_agent.text.sanitize import is_plain

COLUMNS = ("id", "dataset", "scene_name", "question_type", "question", "ground_truth")
"""What every row must have; `options` may be missing where a number is asked for."""

NAMES = ("id", "dataset", "scene_name")
"""Columns of names: files are called after them."""

Row = Mapping[str, Any]


def load_rows(path: Path, benchmark: str) -> list[Question]:
    """Return the questions of a file in its order, their scans not yet looked for.

    Errors: QuestionsError naming the row, where the file or one of its rows is not in VSI-Bench's
    format, or where two rows share an id.
    """
    questions: dict[str, Question] = {}
    for number, row in enumerate(read_rows(path), 1):
        try:
            question = question_from_row(row, benchmark, None)
        except QuestionsError as error:
            raise QuestionsError(f"{path}, row {number}: {error}") from error
        if question.id in questions:
            raise QuestionsError(
                f"{path}, row {number}: the id {question.id:.80} was there before; ids must be unique"
            )
        questions[question.id] = question
    return list(questions.values())


def question_from_row(row: Row, benchmark: str, scan: Path | None) -> Question:
    """Return the question that a row in VSI-Bench's format asks.

    The text and the ground truth stay as they are written; the id and the name of the scene become
    texts. scan: the file of the scene, None where it is not known (yet). Errors: QuestionsError.
    """
    missing = [column for column in COLUMNS if row.get(column) is None]
    if missing:
        raise QuestionsError(
            f"the column {missing[0]!r} is missing: VSI-Bench's format has {COLUMNS}"
        )
    for column in NAMES:
        check_name(column, str(row[column]))
    kind = str(row["question_type"])
    options = _options(row.get("options"))
    truth = str(row["ground_truth"])
    return Question(
        id=str(row["id"]),
        benchmark=benchmark,
        dataset=str(row["dataset"]),
        scene=str(row["scene_name"]),
        type=kind,
        text=str(row["question"]),
        wanted=_wanted(kind, options, truth),
        options=options,
        truth=truth,
        scan=scan,
        pruned={"true": True, "false": False}.get(str(row.get("pruned")).lower()),
    )


def check_name(column: str, text: str) -> None:
    """Raise QuestionsError where a question cannot go by this name; column: one of NAMES."""
    if not is_plain(text):  # names of dialogues, too, are made with a control character
        raise QuestionsError(
            f"the {column} {text!r:.80} has a control character, or another that cannot be seen:"
            " leave it out"
        )


def _wanted(kind: str, options: Sequence[str], truth: str) -> Wanted:
    if kind not in NUMBER_TYPES + CHOICE_TYPES:
        raise QuestionsError(
            f"the question type {kind!r:.80} is unknown: it must be one of"
            f" {', '.join(NUMBER_TYPES + CHOICE_TYPES)}"
        )
    if kind in NUMBER_TYPES:
        if options:
            raise QuestionsError(f"a question of type {kind} wants a number and has no options")
        if not is_number(truth):
            raise QuestionsError(
                f"the ground truth {truth!r:.80} is no number, as {kind} wants one"
            )
        return "number"
    if not options:
        raise QuestionsError(f"a question of type {kind} wants a letter and must have options")
    if truth not in [option[:1] for option in options]:
        raise QuestionsError(f"the ground truth {truth!r:.80} is the letter of none of the options")
    return "letter"


def _options(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    lettered = isinstance(value, list) and all(
        isinstance(option, str) and option.startswith(f"{chr(ord('A') + index)}.")
        for index, option in enumerate(value)
    )
    if not lettered:
        raise QuestionsError(
            f"the options must be a list such as ['A. left', ...], not {value!r:.80}"
        )
    return tuple(value)
