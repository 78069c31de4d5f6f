"""Anybody's answers, from a file, scored as a run's are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from render_agent.dialogue.question import Question
from render_agent.errors import QuestionsError
from render_agent.score.chance import chance_levels
from render_agent.score.means import MACRO, MICRO, Scored
from render_agent.score.parsers import PARSERS
from render_agent.score.questions import is_scorable, metric_means, score_answer, scored_question
from render_agent.score.summary import OFFICIAL, ORDER_NOTE, figures, means
from render_agent.tasks.question_types import ORDER
from render_agent.util.reasons import short_repr
from render_agent.util.safe_parse import MisfitError, convert, parse_json, read_bounded

FORM = '{"id": 0, "prediction": "A"}'


def read_predictions(path: Path, questions: Sequence[Question]) -> dict[str, str | None]:
    """Return the predictions in a file by question id, word for word; null is no answer.

    A line holds an id, a number or a text, and a prediction, a text; a number counts as it is
    written. Errors: QuestionsError where the file cannot be read, or a line is something else, has
    an id that no question has, or one that an earlier line had.
    """
    try:
        lines = read_bounded(path).decode("utf-8-sig").split("\n")
    except (OSError, ValueError) as error:
        raise QuestionsError(f"cannot read the predictions in {path}: {error}") from error
    known = {question.id for question in questions}
    predictions: dict[str, str | None] = {}
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        row = _read_line(line, f"{path}, line {number}")
        question_id = row.id
        if question_id not in known:
            raise QuestionsError(
                f"{path}, line {number}: no question has the id {short_repr(question_id)}; is it another file's?"
            )
        if question_id in seen:
            raise QuestionsError(
                f"{path}, line {number}: the id {short_repr(question_id)} was there before, in line"
                f" {seen[question_id]}; leave one of them out"
            )
        seen[question_id] = number
        predictions[question_id] = row.prediction
    if not predictions:
        raise QuestionsError(f"{path} holds no predictions: write lines such as {FORM}")
    return predictions


def score_predictions(
    questions: Sequence[Question],
    predictions: Mapping[str, str | None],
    parser: str = OFFICIAL,
) -> dict[str, Any]:
    """Score the predictions over all the questions; one without a prediction scores 0.

    `official` is always the official parser's; the other means, `tasks` and `types` (type → score in
    percent) are those of `parser`; `metrics` as in the results of a run. Questions without a truth are left out.
    """
    known = [question for question in questions if is_scorable(question)]
    macro = OFFICIAL if parser == OFFICIAL else MACRO
    scores = figures(_scored_answers(known, predictions, parser), macro)
    missing = sum(question.id not in predictions for question in known)
    empty = sum(not (predictions[q.id] or "").strip() for q in known if q.id in predictions)
    notes = [f"{missing} of {len(known)} questions have no prediction: they score 0"] * bool(
        missing
    )
    notes += [ORDER_NOTE] * any(question.type == ORDER for question in known)
    others = {
        name: means(_scored_answers(known, predictions, name))
        for name in PARSERS
        if name != OFFICIAL
    }
    return {
        "status": "partial" if missing else "complete",
        "notes": notes,
        "parser": parser,
        **scores,
        OFFICIAL: means(_scored_answers(known, predictions, OFFICIAL))[MACRO],
        "types": {name: entry["score"] for name, entry in scores["types"].items()},
        "parsers": {
            name: {MACRO: other[MACRO], MICRO: other[MICRO]} for name, other in others.items()
        },
        "chance": chance_levels(known),
        **metric_means(known, predictions),
        "counts": {
            "questions": len(known),
            "predictions": len(known) - missing,
            "missing": missing,
            "empty": empty,
            "types": {name: entry["n"] for name, entry in scores["types"].items()},
        },
    }


class Prediction(Struct, frozen=True):
    """A line of a file of predictions, its numbers as texts."""

    id: str
    prediction: str | None


def _read_line(line: str, where: str) -> Prediction:
    try:
        row: Prediction = convert(parse_json(line, parse_float=str, parse_int=str), Prediction)
    except MisfitError as error:
        raise QuestionsError(f"{where}: {error}; write {FORM}") from error
    except ValueError as error:
        raise QuestionsError(f"{where} is no JSON: {error}; write {FORM}") from error
    return row


def _scored_answers(
    questions: Sequence[Question], predictions: Mapping[str, str | None], parser: str
) -> list[Scored]:
    return [scored_question(q, score_answer(q, predictions.get(q.id), parser)) for q in questions]
