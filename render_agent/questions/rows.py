"""Rows in VSI-Bench's format → Question, whatever benchmark they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.answer import Wanted
from render_agent.errors import QuestionsError
from render_agent.questions.files import read_rows
from render_agent.score import CHOICE_TYPES, NUMBER_TYPES, is_number
from render_agent.state import Question

COLUMNS = ("id", "dataset", "scene_name", "question_type", "question", "ground_truth")
"""What every row must have; `options` may be missing where a number is asked for."""

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
                f"{path}, row {number}: the id {question.id} was there before; ids must be unique"
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
    if any(ord(sign) < ord(" ") for sign in str(row["id"])):  # names of dialogues are made with one
        raise QuestionsError(f"the id {str(row['id'])!r} has a control character: leave it out")
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


def _wanted(kind: str, options: Sequence[str], truth: str) -> Wanted:
    if kind not in NUMBER_TYPES + CHOICE_TYPES:
        raise QuestionsError(
            f"the question type {kind!r} is unknown: it must be one of"
            f" {', '.join(NUMBER_TYPES + CHOICE_TYPES)}"
        )
    if kind in NUMBER_TYPES:
        if options:
            raise QuestionsError(f"a question of type {kind} wants a number and has no options")
        if not is_number(truth):
            raise QuestionsError(f"the ground truth {truth!r} is no number, as {kind} wants one")
        return "number"
    if not options:
        raise QuestionsError(f"a question of type {kind} wants a letter and must have options")
    if truth not in [option[:1] for option in options]:
        raise QuestionsError(f"the ground truth {truth!r} is the letter of none of the options")
    return "letter"


def _options(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    lettered = isinstance(value, list) and all(
        isinstance(option, str) and option.startswith(f"{chr(ord('A') + place)}.")
        for place, option in enumerate(value)
    )
    if not lettered:
        raise QuestionsError(
            f"the options must be a list such as ['A. left', ...], not {value!r:.80}"
        )
    return tuple(value)
