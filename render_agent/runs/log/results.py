"""The results of a run: `results.json` and `results.csv`, folded from the states of its questions."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.dialogue.state import QuestionState, Status, Tokens
from render_agent.observation.stress.base import PictureStress
from render_agent.questions.chance import chance_levels
from render_agent.runs.log.pairs import causal_results
from render_agent.runs.log.schema import Row
from render_agent.score.means import MACRO, MICRO, Scored
from render_agent.score.official import ORDER
from render_agent.score.parsers import PARSERS, ScoreAnswer
from render_agent.score.summary import OFFICIAL, OFFICIAL_RAW, ORDER_NOTE, figures, means, summary
from render_agent.text.safe_parse import plain

COLUMNS = tuple(name for name in Row.__annotations__ if name != "change")
"""The columns of `results.csv`; that of a run with counterparts ends with `change`."""

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
    every figure of this run; counterparts of questions are in `causal` alone. parser: which of PARSERS reads the answers; whichever it is, what is
    called official is so. The official parser reads the answers in canonical form, `official_raw`
    and the other parsers read them as the model gave them. stress: what the
    pictures show, which may have figures of its own.
    """
    scored = [state for state in states if state.status in SCORED]
    known = [s for s in scored if s.question.truth is not None and s.question.change is None]
    complete = len(scored) == len(states)
    macro = OFFICIAL if parser == OFFICIAL else MACRO
    official_figures = figures(scored_answers(known, parser), macro)
    official = means(scored_answers(known))[MACRO]
    with_truth = [s for s in states if s.question.truth is not None and s.question.change is None]
    causal = causal_results(states)
    raw = summary(scored_answers(known, raw=True), OFFICIAL_RAW)
    for part in ("intervals", "errors"):
        if OFFICIAL_RAW in raw[part]:
            official_figures[part] |= {OFFICIAL_RAW: raw[part][OFFICIAL_RAW]}
    return {
        "status": "partial" if partial or not complete else "complete",
        "notes": [*notes, *_own_notes(states)],
        "parser": parser,
        **official_figures,
        "official": official if complete else None,
        "official_over_scored": {"score": official, "n": len(known)},
        "official_missing_as_zero": means(scored_answers(with_truth))[MACRO],
        OFFICIAL_RAW: raw[OFFICIAL_RAW],
        "parsers": {name: _overall(known, name) for name in PARSERS if name != OFFICIAL},
        "chance": chance_levels([state.question for state in known]),
        **({} if stress is None else stress.figures(known)),
        **({} if causal is None else {"causal": causal}),
        "counts": counts(states),
        "totals": totals(states),
        "questions": [row(state, parser) for state in states],
    }


def counts(states: Sequence[QuestionState]) -> dict[str, int]:
    """Return how many questions there are of every status, and how many needed a repair.

    `repairs` counts replies that could not be read, `repaired` the questions that had some.
    """
    by_status = Counter(str(state.status) for state in states)
    repairs = [state.repairs for state in states]
    return {str(status): by_status[str(status)] for status in Status} | {
        "questions": len(states),
        "repairs": sum(repairs),
        "repaired": sum(number > 0 for number in repairs),
    }


def row(state: QuestionState, parser: str = OFFICIAL) -> dict[str, Any]:
    """Return one question's row: its answer, its score (a counterpart has none), and what it took."""
    change = state.question.change
    known = state.status in SCORED and state.question.truth is not None and change is None
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
        **({} if change is None else {"change": change.asked}),
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows as CSV."""
    text = io.StringIO()
    columns = (*COLUMNS, "change") if any("change" in row for row in rows) else COLUMNS
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _own_notes(states: Sequence[QuestionState]) -> list[str]:
    """Return what the figures must say about themselves."""
    status = Counter(state.status for state in states)
    reasons = (
        (status[Status.ACTIVE], "are still active: the run is unfinished"),
        (status[Status.FAILED], "failed and are not scored"),
        (status[Status.MISSING], "are not scored: their scans are missing"),
    )
    notes = [f"{number} of {len(states)} questions {words}" for number, words in reasons if number]
    if any(state.question.type == ORDER for state in states):
        notes.append(ORDER_NOTE)
    return notes


def _overall(states: Sequence[QuestionState], parser: str) -> dict[str, float | None]:
    scores = means(scored_answers(states, parser))
    return {name: scores[name] for name in (MACRO, MICRO)}


def scored_answers(
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
    answer = state.answer_text if raw else state.answer
    return score(state.question.type, answer, state.question.truth)


WORK_FIELDS = ("turns", "renders", "tokens_in", "tokens_out")
"""What the row of a question says that it took."""


def question_work(state: QuestionState) -> dict[str, int]:
    """Return what a question took, by WORK_FIELDS.

    renders: distinct pictures that were drawn for it, those of candidates too; a picture that the
    questions of a scene share counts for each that shows it. Tokens are those of all samples, groups and
    verifiers; those that were read from a cache are among tokens_in.
    """
    return {
        "turns": len(state.turns),
        "renders": len({file for turn in state.turns for file in turn.drawn}),
        "tokens_in": sum(turn.tokens.prompt for turn in state.turns),
        "tokens_out": sum(turn.tokens.reply for turn in state.turns),
    }


def totals(states: Sequence[QuestionState]) -> dict[str, Any]:
    """Return turns, calls of the model, pictures, events, tokens and seconds, over all logged turns.

    A turn's generating time is that of its whole batch, so each turn counts its share of it, as it
    counts its share of the call. renders: distinct pictures over the run. per_question: means over the
    questions that have a turn, None where none has.
    """
    turns = [turn for state in states for turn in state.turns]
    events = Counter(event for turn in turns for event in turn.events)
    events.update(event for state in states for event in state.lost_events)
    calls = sum(1 / t.batch_size + (t.evidence.calls if t.evidence else 0.0) for t in turns)
    return {
        "turns": len(turns),
        "calls": round(calls),
        "renders": len({file for turn in turns for file in turn.drawn}),
        "events": dict(sorted(events.items())),
        "tokens": plain(Tokens.total(turn.tokens for turn in turns)),
        "seconds": {
            "rendering": round(sum(turn.seconds.rendering for turn in turns), 3),
            "waiting": round(sum(turn.seconds.waiting for turn in turns), 3),
            "generating": round(
                sum(turn.seconds.generating / turn.batch_size for turn in turns), 3
            ),
        },
        "per_question": per_question([question_work(s) for s in states if s.turns], calls),
    }


def per_question(rows: Sequence[Mapping[str, int]], calls: float) -> dict[str, float] | None:
    """Return the means of what questions took, and their share of the calls; None of none."""
    if not rows:
        return None
    means = {name: sum(row[name] for row in rows) / len(rows) for name in WORK_FIELDS}
    return means | {"calls": calls / len(rows)}
