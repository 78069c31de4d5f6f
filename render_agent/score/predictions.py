"""Scores answers from a predictions file like the answers of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError
from render_agent.score.chance import baseline_notes, chance_levels
from render_agent.score.means import AnswerScore
from render_agent.score.parsers import PARSERS
from render_agent.score.questions import is_scorable, metric_means, score_answer, scored_question
from render_agent.score.summary import (
    OFFICIAL,
    OFFICIAL_RAW,
    ORDER_NOTE,
    main_mean,
    overall_means,
    score_figures,
)
from render_agent.tasks.question_types import ORDER
from render_agent.util.reasons import reason_of, short_repr
from render_agent.util.safe_parse import ValidationError, convert, parse_json, read_text

FORM = '{"id": 0, "prediction": "A"}'


def read_predictions(path: Path, questions: Sequence[Question]) -> dict[str, str | None]:
    """Read predictions from a JSON Lines file.

    Each line has an `id` (number or string) and a `prediction` (string, number or null for no
    answer). Numbers are kept as written.
    """
    try:
        lines = read_text(path).split("\n")
    except (OSError, ValueError) as error:
        raise QuestionsError(
            f"cannot read the predictions in {path}: {reason_of(error)}"
        ) from error
    known_ids = {question.id for question in questions}
    predictions: dict[str, str | None] = {}
    line_by_id: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _read_line(line, f"{path}, line {number}")
        question_id = row.id
        if question_id not in known_ids:
            raise QuestionsError(
                f"{path}, line {number}: no question has the id {short_repr(question_id)}."
                " Check that the predictions belong to these questions."
            )
        if question_id in line_by_id:
            raise QuestionsError(
                f"{path}, line {number}: duplicate id {short_repr(question_id)} (first in line"
                f" {line_by_id[question_id]}). Remove one of the lines."
            )
        line_by_id[question_id] = number
        predictions[question_id] = row.prediction
    if not predictions:
        raise QuestionsError(f"{path} has no predictions. Expected lines such as {FORM}")
    return predictions


def score_predictions(
    questions: Sequence[Question],
    predictions: Mapping[str, str | None],
    parser: str = OFFICIAL,
) -> dict[str, Any]:
    """Score predictions. A question without a prediction scores 0."""
    scorable = [question for question in questions if is_scorable(question)]
    official = _scored_answers(scorable, predictions, OFFICIAL)
    scores = score_figures(
        {
            main_mean(parser): _scored_answers(scorable, predictions, parser),
            OFFICIAL_RAW: official,
            OFFICIAL: official,
        }
    )
    num_missing = sum(question.id not in predictions for question in scorable)
    empty = sum(not (predictions[q.id] or "").strip() for q in scorable if q.id in predictions)
    notes = []
    if num_missing:
        notes.append(f"{num_missing} of {len(scorable)} questions have no prediction and score 0")
    if any(question.type == ORDER for question in scorable):
        notes.append(ORDER_NOTE)
    return {
        "status": "partial" if num_missing else "complete",
        "notes": notes,
        "parser": parser,
        **scores,
        "types": {name: entry["score"] for name, entry in scores["types"].items()},
        "parsers": {
            name: overall_means(_scored_answers(scorable, predictions, name))
            for name in PARSERS
            if name != OFFICIAL
        },
        "chance": chance_levels(scorable, questions),
        "baselines": baseline_notes(questions),
        **metric_means(scorable, predictions),
        "counts": {
            "questions": len(scorable),
            "predictions": len(scorable) - num_missing,
            "missing": num_missing,
            "empty": empty,
            "types": {name: entry["n"] for name, entry in scores["types"].items()},
        },
    }


class Prediction(Struct, frozen=True):
    """A line of a predictions file, with numbers kept as strings."""

    id: str
    prediction: str | None


def _read_line(line: str, location: str) -> Prediction:
    try:
        row: Prediction = convert(parse_json(line, parse_float=str, parse_int=str), Prediction)
    except ValidationError as error:
        raise QuestionsError(f"{location}: {error}. Expected {FORM}") from error
    except ValueError as error:
        raise QuestionsError(f"{location}: invalid JSON: {error}. Expected {FORM}") from error
    return row


def _scored_answers(
    questions: Sequence[Question], predictions: Mapping[str, str | None], parser: str
) -> list[AnswerScore]:
    return [scored_question(q, score_answer(q, predictions.get(q.id), parser)) for q in questions]
