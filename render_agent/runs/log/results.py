"""The results of a run: `results.json` and `results.csv`, folded from the states of its questions."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from render_agent import registry
from render_agent.beliefs.belief_summary import (
    ScoredProbe,
    belief_figures,
    probe_totals,
    probes_of,
)
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import SCORED, QuestionState, Status, split_counterparts
from render_agent.dialogue.tokens import Tokens
from render_agent.errors import QuestionsError
from render_agent.runs.log.pairs import causal_results
from render_agent.runs.log.schema import Row
from render_agent.score.intervals import ratio
from render_agent.score.means import MACRO, MICRO, Scored
from render_agent.score.official import ORDER
from render_agent.score.parsers import PARSERS
from render_agent.score.summary import (
    OFFICIAL,
    OFFICIAL_RAW,
    ORDER_NOTE,
    figures,
    means,
    summary,
)
from render_agent.tasks.chance import chance_levels
from render_agent.tasks.ground_truth import Facts, known_facts
from render_agent.util.safe_parse import plain
from render_agent.views.stress.image_stress import PictureStress

Marks = Mapping[str, float]
NO_MARKS: Marks = {}

COLUMNS = tuple(name for name in Row.__annotations__ if name != "change")
"""The columns of `results.csv`; that of a run with counterparts ends with `change`."""


def results(
    states: Sequence[QuestionState],
    *,
    partial: bool,
    notes: Sequence[str] = (),
    parser: str = OFFICIAL,
    stress: PictureStress | None = None,
    annotations: str | None = None,
    marks: Marks = NO_MARKS,
    reuse: str | None = None,
) -> dict[str, Any]:
    """Return what `results.json` holds.

    partial: whether the questions are only a part of the benchmark. notes: what must be said beside
    every figure of this run; counterparts of questions are in `causal` alone. parser: which of PARSERS reads the answers; whichever it is, what is
    called official is so. The official parser reads the answers in canonical form, `official_raw`
    and the other parsers read them as the model gave them. stress: what the
    pictures show, which may have figures of its own. annotations: those of the run, where it has any, which tell
    what beliefs are set against. marks: a judge's scores, 0 … 1, of questions by id that
    only a judge can score; without one such a question is not scored. reuse: what the engine kept over turns.
    """
    known = counted_states(states, marks)
    complete = _complete(states)
    macro = OFFICIAL if parser == OFFICIAL else MACRO
    official_figures = figures(scored_answers(known, parser, marks=marks), macro)
    official = means(scored_answers(known, marks=marks))[MACRO]
    with_truth = [s for s in split_counterparts(states)[0] if _scorable(s, marks)]
    causal = causal_results(states)
    raw = summary(scored_answers(known, raw=True, marks=marks), OFFICIAL_RAW)
    for part in ("intervals", "errors"):
        if OFFICIAL_RAW in raw[part]:
            official_figures[part] |= {OFFICIAL_RAW: raw[part][OFFICIAL_RAW]}
    return {
        **standing(states, partial=partial, notes=notes),
        "parser": parser,
        **official_figures,
        "official": official if complete else None,
        "official_over_scored": {"score": official, "n": len(known)},
        "official_missing_as_zero": means(scored_answers(with_truth, marks=marks))[MACRO],
        OFFICIAL_RAW: raw[OFFICIAL_RAW],
        "parsers": {name: _overall(known, name, marks) for name in PARSERS if name != OFFICIAL},
        "chance": chance_levels([state.question for state in known]),
        **metric_means(known),
        **({} if stress is None else stress.figures(known)),
        **_beliefs(states, stress, annotations),
        **({} if causal is None else {"causal": causal}),
        "counts": counts(states),
        "totals": totals(states),
        "questions": [row(state, parser, marks) for state in states],
        **({} if reuse is None else {"reuse": reuse}),
    }


def standing(
    states: Sequence[QuestionState], *, partial: bool, notes: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what `results` says before any figure: `status` and `notes`."""
    return {
        "status": "partial" if partial or not _complete(states) else "complete",
        "notes": [*notes, *_own_notes(states)],
    }


def _complete(states: Sequence[QuestionState]) -> bool:
    return all(state.status in SCORED for state in states)


def _beliefs(
    states: Sequence[QuestionState], stress: PictureStress | None, annotations: str | None
) -> dict[str, Any]:
    """Return the figures of the beliefs under `beliefs`; empty where no question was probed."""
    probed = _probed(states)
    if not probed:
        return {}
    try:
        return {"beliefs": belief_figures(probed, *_known(probed, stress, annotations))}
    except QuestionsError as error:  # what the run began with was moved or edited since
        return {"beliefs": {"note": str(error), **belief_figures(probed, {}, {})}}


def beliefs_of(
    states: Sequence[QuestionState], stress: PictureStress | None, annotations: str | None
) -> dict[str, list[ScoredProbe]]:
    """Return the scored probes of every probed question by id, set against the boxes of its scene.

    QuestionsError where the files of boxes have changed since the run began.
    """
    probed = _probed(states)
    facts, truths = _known(probed, stress, annotations)
    return {state.id: probes_of(state, facts, truths) for state in probed}


def _probed(states: Sequence[QuestionState]) -> list[QuestionState]:
    return [state for state in states if any(turn.probe for turn in state.turns)]


def _known(
    probed: Sequence[QuestionState], stress: PictureStress | None, annotations: str | None
) -> tuple[dict[str, Facts], dict[str, str | None]]:
    """Return what is known of the scenes of questions, and what is right in what was shown, by id."""
    questions = [state.question for state in probed]
    truths = {q.id: q.truth if stress is None else stress.truth(q) for q in questions}
    return known_facts(questions, annotations), truths


def counted_states(states: Iterable[QuestionState], marks: Marks = NO_MARKS) -> list[QuestionState]:
    """Return the questions whose answers count in scores: done, with a truth or a mark, and no counterparts."""
    own, _ = split_counterparts(states)
    return [s for s in own if s.status in SCORED and _scorable(s, marks)]


def counts(states: Sequence[QuestionState]) -> dict[str, int]:
    """Return the number of questions of every status, and of those that needed a repair.

    `repairs` counts replies that could not be read, `repaired` the questions that had some.
    """
    by_status = Counter(str(state.status) for state in states)
    repairs = [state.repairs for state in states]
    return {str(status): by_status[str(status)] for status in Status} | {
        "questions": len(states),
        "repairs": sum(repairs),
        "repaired": sum(number > 0 for number in repairs),
    }


def metric_means(states: Sequence[QuestionState]) -> dict[str, Any]:
    """Return `metrics`: the mean of every metric over the questions that name it, or one beside it; {} if none does.

    An entry has `score` and `interval` in percent and `n`; answers count as the model gave them.
    """
    named: dict[str, list[Question]] = {}
    answers = {state.id: state.answer_text for state in states}
    for question in (state.question for state in states):
        if question.metric is not None and not question.scored_by.judged:
            for name in (question.metric, *question.scored_by.beside):
                named.setdefault(name, []).append(replace(question, metric=name))
    metrics = {}
    for name in filter(named.__contains__, registry.names("metric")):
        questions = named[name]
        scores = [question.score(answers[question.id]) for question in questions]
        mean = ratio(scores, [(q.dataset, q.scene) for q in questions])
        if mean is not None:
            metrics[name] = {
                "score": 100 * float(mean.mean),
                "interval": mean.interval(share=True),
                "n": len(questions),
            }
    return {"metrics": metrics} if metrics else {}


def row(state: QuestionState, parser: str = OFFICIAL, marks: Marks = NO_MARKS) -> dict[str, Any]:
    """Return one question's row: its answer, its score (a counterpart has none), and what it took."""
    change = state.change
    known = state.status in SCORED and _scorable(state, marks) and change is None
    return {
        "question_id": state.id,
        "type": state.question.type,
        "dataset": state.question.dataset,
        "scene": state.question.scene,
        "status": str(state.status),
        "answer_text": state.answer_text,
        "answer": state.answer,
        "truth": state.question.truth,
        "score": _score(state, parser, marks, raw=parser != OFFICIAL) if known else None,
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
    status = Counter(state.status for state in states)
    reasons = (
        (status[Status.ACTIVE], "are still active: the run is unfinished"),
        (status[Status.FAILED], "failed and are not scored"),
        (status[Status.MISSING], "are not scored: their scans are missing"),
    )
    notes = [f"{number} of {len(states)} questions {words}" for number, words in reasons if number]
    if judged := sum(state.question.scored_by.judged for state in states):
        notes.append(
            f"{judged} of {len(states)} questions are for a judge: render-agent score RUN --judge"
        )
    if any(state.question.type == ORDER for state in states):
        notes.append(ORDER_NOTE)
    return notes


def _overall(states: Sequence[QuestionState], parser: str, marks: Marks) -> dict[str, float | None]:
    scores = means(scored_answers(states, parser, marks=marks))
    return {name: scores[name] for name in (MACRO, MICRO)}


def scored_answers(
    states: Sequence[QuestionState],
    parser: str = OFFICIAL,
    *,
    raw: bool = False,
    marks: Marks = NO_MARKS,
) -> list[Scored]:
    """Return the scores of questions with a truth; one that is not scored has 0."""
    raw = raw or parser != OFFICIAL
    return [state.question.scored(_score(state, parser, marks, raw=raw)) for state in states]


def _scorable(state: QuestionState, marks: Marks) -> bool:
    return state.question.scorable or state.id in marks


def _score(state: QuestionState, parser: str, marks: Marks, *, raw: bool) -> float:
    if state.status not in SCORED or not _scorable(state, marks):
        return 0.0
    if state.id in marks:
        return marks[state.id]
    return state.question.score(state.answer_text if raw else state.answer, parser)


WORK_FIELDS = ("turns", "renders", "tokens_in", "tokens_out")
"""What the row of a question says that it took."""


def question_work(state: QuestionState) -> dict[str, int]:
    """Return the work of a question, by WORK_FIELDS.

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
    events.update(event for turn in turns if turn.probe for event in turn.probe.events)
    probes = probe_totals(states)
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
        **({"probes": probes} if probes["asked"] else {}),
        "per_question": per_question([question_work(s) for s in states if s.turns], calls),
    }


def per_question(rows: Sequence[Mapping[str, int]], calls: float) -> dict[str, float] | None:
    """Return the means of what questions took, and their share of the calls; None of none."""
    if not rows:
        return None
    means = {name: sum(row[name] for row in rows) / len(rows) for name in WORK_FIELDS}
    return means | {"calls": calls / len(rows)}
