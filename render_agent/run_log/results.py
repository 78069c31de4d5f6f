"""What a run came to: `results.json` and `results.csv`, folded from the states."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.score import by_type, mean, overall, score_answer
from render_agent.state import QuestionState, Status

COLUMNS = (
    "question_id",
    "type",
    "scene",
    "status",
    "answer_text",
    "answer",
    "truth",
    "score",
    "turns",
)

SCORED = (Status.ANSWERED, Status.EXHAUSTED)
"""The states whose answers count; no answer among them counts as wrong."""


def results(states: Sequence[QuestionState], *, partial: bool) -> dict[str, Any]:
    """Return what `results.json` holds.

    partial: whether the questions are only a part of the benchmark.
    """
    rows = [row(state) for state in states]
    scored = [(state, state.question.truth) for state in states if state.status in SCORED]
    known = [(state, truth) for state, truth in scored if truth is not None]
    canonical = _types(known, "answer")
    raw = _types(known, "answer_text")
    complete = len(scored) == len(states)
    counts = Counter(str(state.status) for state in states)
    return {
        "status": "partial" if partial or not complete else "complete",
        "official": percent(overall(canonical)) if complete and known else None,
        "official_over_scored": {"score": percent(overall(canonical)), "n": len(known)},
        "official_missing_as_zero": percent(overall(_types(_with_truth(states), "answer"))),
        "official_raw": percent(overall(raw)),
        "micro": percent(mean([_score(state, "answer") for state, _ in known])) if known else None,
        "types": {
            name: {"score": percent(score), "n": sum(s.question.type == name for s, _ in known)}
            for name, score in canonical.items()
        },
        "counts": {str(status): counts.get(str(status), 0) for status in Status}
        | {"questions": len(states), "repairs": sum(state.repairs for state in states)},
        "totals": totals(states),
        "questions": rows,
    }


def row(state: QuestionState) -> dict[str, Any]:
    """Return one question's row."""
    known = state.status in SCORED and state.question.truth is not None
    return {
        "question_id": state.id,
        "type": state.question.type,
        "scene": state.question.scene,
        "status": str(state.status),
        "answer_text": state.answer_text,
        "answer": state.answer,
        "truth": state.question.truth,
        "score": _score(state, "answer") if known else None,
        "turns": len(state.turns),
    }


def totals(states: Sequence[QuestionState]) -> dict[str, Any]:
    """Return turns, calls of the model, pictures, tokens and seconds, over all turns in the log.

    A turn's generating time is that of its whole batch, so each turn counts its share of it, as it
    counts its share of the call.
    """
    turns = [turn for state in states for turn in state.turns]
    return {
        "turns": len(turns),
        "calls": round(sum(1 / turn.batch_size for turn in turns)),
        "renders": len({view.file for turn in turns for view in turn.views}),
        "tokens": {
            "in": sum(turn.tokens.prompt for turn in turns),
            "out": sum(turn.tokens.reply for turn in turns),
            "from_cache": sum(turn.tokens.cached for turn in turns),
        },
        "seconds": {
            "rendering": round(sum(turn.seconds.rendering for turn in turns), 3),
            "waiting": round(sum(turn.seconds.waiting for turn in turns), 3),
            "generating": round(
                sum(turn.seconds.generating / turn.batch_size for turn in turns), 3
            ),
        },
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def percent(score: float | None) -> float | None:
    """Return a score of 0 … 1 times 100."""
    return None if score is None else 100 * score


def _with_truth(states: Sequence[QuestionState]) -> list[tuple[QuestionState, str]]:
    return [(state, state.question.truth) for state in states if state.question.truth is not None]


def _types(known: Sequence[tuple[QuestionState, str]], answer: str) -> dict[str, float]:
    return by_type((state.question.type, _score(state, answer)) for state, _ in known)


def _score(state: QuestionState, answer: str) -> float:
    if state.status not in SCORED or state.question.truth is None:
        return 0.0
    given = state.answer if answer == "answer" else state.answer_text
    return score_answer(state.question.type, given, state.question.truth)
