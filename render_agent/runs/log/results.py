"""What a run came to: `results.json` and `results.csv`, folded from the states."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.state import QuestionState, Status
from render_agent.observation.stress.base import PictureStress
from render_agent.questions.chance import chance_levels
from render_agent.runs.log.known_forms import Row
from render_agent.runs.log.work import question_work, totals
from render_agent.score.means import MACRO, MICRO, Scored
from render_agent.score.official import ORDER
from render_agent.score.parsers import PARSERS, ScoreAnswer
from render_agent.score.summary import OFFICIAL, ORDER_NOTE, figures, means

COLUMNS = tuple(Row.__annotations__)

SCORED = (Status.ANSWERED, Status.EXHAUSTED)
"""The states whose answers count; no answer among them counts as wrong."""


def results(
    states: Sequence[QuestionState],
    *,
    partial: bool,
    notes: Sequence[str] = (),
    parser: str = OFFICIAL,
    stress: PictureStress | None = None,
) -> dict[str, Any]:
    """Return what `results.json` holds.

    partial: whether the questions are only a part of the benchmark. notes: what must be said beside
    every figure of this run. parser: which of PARSERS reads the answers; whichever it is, what is
    called official is so. The official parser reads the answers in canonical form, `official_raw`
    and the other parsers read them as the model gave them. stress: what the
    pictures show, which may have figures of its own.
    """
    scored = [state for state in states if state.status in SCORED]
    known = [state for state in scored if state.question.truth is not None]
    complete = len(scored) == len(states)
    macro = OFFICIAL if parser == OFFICIAL else MACRO
    found = figures(_scored(known, parser), macro)
    official = means(_scored(known))[MACRO]
    with_truth = [state for state in states if state.question.truth is not None]
    return {
        "status": "partial" if partial or not complete else "complete",
        "notes": [*notes, *_own_notes(states)],
        "parser": parser,
        **found,
        "official": official if complete else None,
        "official_over_scored": {"score": official, "n": len(known)},
        "official_missing_as_zero": means(_scored(with_truth))[MACRO],
        "official_raw": means(_scored(known, raw=True))[MACRO],
        "parsers": {name: _overall(known, name) for name in PARSERS if name != OFFICIAL},
        "chance": chance_levels([state.question for state in known]),
        **({} if stress is None else stress.figures(known)),
        "counts": counts(states),
        "totals": totals(states),
        "questions": [row(state, parser) for state in states],
    }


def counts(states: Sequence[QuestionState]) -> dict[str, int]:
    """Return how many questions there are of every status, and how many needed a repair.

    `repairs` counts replies that could not be read, `repaired` the questions that had some.
    """
    found = Counter(str(state.status) for state in states)
    repairs = [state.repairs for state in states]
    return {str(status): found[str(status)] for status in Status} | {
        "questions": len(states),
        "repairs": sum(repairs),
        "repaired": sum(number > 0 for number in repairs),
    }


def row(state: QuestionState, parser: str = OFFICIAL) -> dict[str, Any]:
    """Return one question's row: its answer, its score, and what it took."""
    known = state.status in SCORED and state.question.truth is not None
    return {
        "question_id": state.id,
        "type": state.question.type,
        "dataset": state.question.dataset,
        "scene": state.question.scene,
        "status": str(state.status),
        "answer_text": state.answer_text,
        "answer": state.answer,
        "truth": state.question.truth,
        "score": _score(state, PARSERS[parser], raw=parser != OFFICIAL) if known else None,
        **question_work(state),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _own_notes(states: Sequence[QuestionState]) -> list[str]:
    """Return what the figures must say about themselves."""
    status = Counter(state.status for state in states)
    told = (
        (status[Status.ACTIVE], "are still active: the run is unfinished"),
        (status[Status.FAILED], "failed and are not scored"),
        (status[Status.MISSING], "are not scored: their scans are missing"),
    )
    notes = [f"{number} of {len(states)} questions {words}" for number, words in told if number]
    if any(state.question.type == ORDER for state in states):
        notes.append(ORDER_NOTE)
    return notes


def _overall(states: Sequence[QuestionState], parser: str) -> dict[str, float | None]:
    found = means(_scored(states, parser))
    return {name: found[name] for name in (MACRO, MICRO)}


def _scored(
    states: Sequence[QuestionState], parser: str = OFFICIAL, *, raw: bool = False
) -> list[Scored]:
    """Return the scores of questions with a truth; one that is not scored has 0."""
    raw = raw or parser != OFFICIAL
    return [
        Scored(
            state.question.type,
            state.question.dataset,
            state.question.scene,
            _score(state, PARSERS[parser], raw=raw),
            state.question.pruned,
        )
        for state in states
    ]


def _score(state: QuestionState, score: ScoreAnswer, *, raw: bool) -> float:
    if state.status not in SCORED or state.question.truth is None:
        return 0.0
    given = state.answer_text if raw else state.answer
    return score(state.question.type, given, state.question.truth)
