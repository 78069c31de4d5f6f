"""The results of a run (`results.json`), computed from the states of its questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from render_agent.dialogue.state import SCORED, QuestionState, Status
from render_agent.dialogue.tokens import reported_total
from render_agent.engines.sight_check import worst_finding
from render_agent.runs.inputs import machine_note
from render_agent.runs.log.caveats import adapted_fields, caveats
from render_agent.runs.log.row import (
    SAVED_COLUMNS,
    Marks,
    can_score,
    is_read_differently,
    row_of,
    score_of,
    scored_answers,
)
from render_agent.runs.run_part import run_parts
from render_agent.score.chance import baseline_notes, chance_levels
from render_agent.score.dialogues.answering import answering_figures
from render_agent.score.dialogues.instruments import instrument_figures
from render_agent.score.dialogues.reached_views import view_measures
from render_agent.score.dialogues.score_by_images import score_by_images
from render_agent.score.means import MACRO
from render_agent.score.parsers import PARSERS
from render_agent.score.questions import metric_means, metric_of, scored_question
from render_agent.score.summary import (
    OFFICIAL,
    OFFICIAL_RAW,
    ORDER_NOTE,
    main_mean,
    means,
    overall_means,
    score_figures,
)
from render_agent.tasks.question_types import ORDER

if TYPE_CHECKING:
    from render_agent.runs.read import RunData


def results(
    run: RunData, states: Sequence[QuestionState], parser: str, marks: Marks, reuse: str | None
) -> dict[str, Any]:
    """Return the content of `results.json` for questions of a run.

    Counterparts count only in what parts add. `parser` reads the answers behind all scores and rows, except the scores named
    `official`, which are of parsed answers, and `official_raw`.
    """
    stress, billing, reproducible = run.parts.image_stress, run.parts.billing, _is_reproducible(run)
    reuse, sight = reuse or run.record["engine"].get("reuse"), worst_finding(run.sight_checks)
    originals = [state for state in states if not state.question.is_counterpart]
    counterparts = [state for state in states if state.question.is_counterpart]
    scored_states = [state for state in states if score_of(state, marks=marks) is not None]
    selection = [state.question for state in originals]
    by_mean = {
        main_mean(parser): scored_answers(scored_states, parser, marks=marks),
        OFFICIAL_RAW: scored_answers(scored_states, marks=marks),
        OFFICIAL: scored_answers(scored_states, parsed=True, marks=marks),
    }
    scores = score_figures(by_mean)
    official = scores[OFFICIAL]
    missing_as_zero = [
        scored_question(state.question, score_of(state, parsed=True, marks=marks) or 0.0)
        for state in states
        if can_score(state, marks)
    ]
    complete = all(state.status in SCORED for state in states)
    answering, instruments = answering_figures(originals), instrument_figures(originals)
    part_results = [p.results(run, originals, counterparts) for p in run_parts()]
    turns = [turn for state in states for turn in state.turns]
    rows = [row_of(state, stress, billing, parser, marks).to_json() for state in states]
    return {
        "status": "partial" if run.config.partial or not complete else "complete",
        "notes": [*caveats(turns), *run.notes, *_own_notes(run, states)],
        "parser": parser,
        **scores,
        "official": official if complete else None,
        "official_over_scored": {"score": official, "n": len(scored_states)},
        "official_missing_as_zero": means(missing_as_zero)[MACRO],
        "not_in_form": sum(map(is_read_differently, scored_states)),
        "parsers": {
            name: overall_means(scored_answers(scored_states, name, marks=marks))
            for name in PARSERS
            if name != OFFICIAL
        },
        "score_by_images": score_by_images([s for s in states if score_of(s) is not None]),
        "chance": chance_levels([state.question for state in scored_states], selection),
        "baselines": baseline_notes(selection),
        **metric_means(
            [state.question for state in scored_states],
            {state.id: state.answer_text for state in scored_states},
        ),
        **view_measures(scored_states),
        **stress.metrics(scored_states),
        **{name: entry for part in part_results for name, entry in part.items()},
        **({} if answering is None else {"answering": answering}),
        **({} if instruments is None else {"instruments": instruments}),
        **({"adapted": adaptations} if (adaptations := adapted_fields(turns)) else {}),
        "counts": count_statuses(states),
        "totals": totals(states, rows),
        "cost_usd": billing.total(states),
        "questions": rows,
        **({} if reuse is None else {"reuse": reuse}),
        **({} if reproducible is None else {"reproducible": reproducible}),
        **({} if sight is None else {"sight_check": sight}),
    }


def _is_reproducible(run: RunData) -> bool | None:
    """Return whether the engine guarantees that replies can be repeated bit for bit; None if it is not asked for."""
    engine = run.record["engine"]
    if run.config.reproducible == "on":
        return machine_note(engine) is None
    servers = engine.get("servers")
    return all(server.get("deterministic") for server in servers) if servers else None


def count_statuses(states: Sequence[QuestionState]) -> dict[str, int]:
    """Return the number of questions by status, the number of unreadable replies (`repairs`), the number of
    questions that had any (`repaired`), and the number of answers that were restated.
    """
    by_status = Counter(str(state.status) for state in states)
    repairs = [state.repairs for state in states]
    return {str(status): by_status[str(status)] for status in Status} | {
        "questions": len(states),
        "repairs": sum(repairs),
        "repaired": sum(number > 0 for number in repairs),
        "restated": sum(turn.is_restated for state in states for turn in state.turns),
    }


def _own_notes(run: RunData, states: Sequence[QuestionState]) -> list[str]:
    status = Counter(state.status for state in states)
    reasons = (
        (status[Status.ACTIVE], "are still active: the run is unfinished"),
        (status[Status.FAILED], "failed and are not scored"),
        (status[Status.MISSING], "are not scored: their scans are missing"),
    )
    notes = [
        f"{number} of {len(states)} questions {clause}" for number, clause in reasons if number
    ]
    if num_judged := sum(metric_of(state.question).needs_judge for state in states):
        notes.append(
            f"{num_judged} of {len(states)} questions need a judge: render-agent score RUN --judge"
        )
    shows_video = run.parts.view_policy.is_video
    if not shows_video and any(state.question.type == ORDER for state in states):
        notes.append(ORDER_NOTE)
    return notes


def totals(states: Sequence[QuestionState], rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return turns, model calls, images, events, tokens and seconds over all logged turns.

    Each turn is charged its share of the calls and the generation time of its batch. `renders` is the number of
    distinct images of the run. `per_question` has the means over questions with at least one turn, or None.
    """
    turns = [turn for state in states for turn in state.turns]
    events = Counter(event for turn in turns for event in turn.events)
    events.update(event for state in states for event in state.lost_events)
    events.update(event for turn in turns for reply in turn.side_replies for event in reply.events)
    calls = sum(1 / t.batch_size + (t.evidence.calls if t.evidence else 0.0) for t in turns)
    calls += sum(1 / turn.restated.batch_size for turn in turns if turn.restated)
    generating = sum(turn.seconds.generating / turn.batch_size for turn in turns)
    return {
        "turns": len(turns),
        "calls": round(calls),
        "renders": len({file for turn in turns for file in turn.image_files}),
        "events": dict(sorted(events.items())),
        "tokens": reported_total(turn.tokens for turn in turns),
        "seconds": {
            "rendering": round(sum(turn.seconds.rendering for turn in turns), 3),
            "waiting": round(sum(turn.seconds.waiting for turn in turns), 3),
            "generating": round(generating, 3),
        },
        **{key: value for part in run_parts() for key, value in part.totals(turns).items()},
        "per_question": per_question(rows, calls),
    }


def per_question(rows: Sequence[Mapping[str, Any]], calls: float) -> dict[str, float | None] | None:
    """Return the mean per question of all counts in the rows, and of the calls; None if there are no turns.

    Counts missing from all rows, such as tokens that the engine does not report, are None.
    """
    number = sum(row["turns"] > 0 for row in rows)
    if not number:
        return None
    names = [column.name for column in SAVED_COLUMNS if column.kind == "int"]
    values_by_name = {name: [row[name] for row in rows if row[name] is not None] for name in names}
    means: dict[str, float | None] = {
        name: sum(counts) / number if counts else None for name, counts in values_by_name.items()
    }
    costs = [row["cost_usd"] for row in rows if row.get("cost_usd") is not None]
    means |= {"cost_usd": sum(costs) / number} if costs else {}
    return means | {"calls": calls / number}
