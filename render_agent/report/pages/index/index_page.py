"""Index page of a report: the score of the run, its plots and the table of its questions."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from render_agent import registry
from render_agent.dialogue.state import STATUS_LABELS, QuestionState, Status
from render_agent.errors import UsageError
from render_agent.options import VSIBENCH, RunConfig
from render_agent.report.diagnosis.model import Diagnosis
from render_agent.report.elapsed_time import elapsed_by_turn
from render_agent.report.pages.page import frame, write_page
from render_agent.report.pages.plots.run_plots import plot_scores, run_plots, write_plots
from render_agent.report.pages.report_page import ReportPage
from render_agent.report.pages.table import cell_text, choices, table_script
from render_agent.report.report_part import report_parts
from render_agent.report.result_rows import QUESTION_COLUMNS, diagnosis_columns
from render_agent.report.sentences.facts import cost_fact, request_facts
from render_agent.report.sentences.findings import findings
from render_agent.report.sentences.labels import OUTCOME_LABELS, outcome_label
from render_agent.runs.log.columns import Column
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData
from render_agent.score.means import MACRO
from render_agent.score.power import plan
from render_agent.score.summary import OFFICIAL, headline, lenient_line
from render_agent.score.tables import (
    COUNT_LABELS,
    describe_cost,
    figure,
    interval,
    overall_lines,
)
from render_agent.tasks.question_types import type_label
from render_agent.util.display import count_noun, format_duration
from render_agent.views.image_store import safe_name

ROWS_SHOWN = 100  # rows of the table per page

COLUMNS = tuple(column for column in QUESTION_COLUMNS if column.cell)

# column name -> label of its filter
FILTERS = {column.name: column.header for column in QUESTION_COLUMNS if column.filter}
FILTERS |= {"result": "Result"}


def write_index(run: RunData, diagnoses: Mapping[str, Diagnosis], folder: Path) -> None:
    """Write the index page, the pages that it links to, the plots and `questions.js`."""
    rows = table_rows(run, diagnoses)
    lead, plots = plot_scores(run.results), run_plots(run, diagnoses)
    write_plots(folder, lead, *plots)
    (folder / "questions.js").write_bytes(table_script(rows, COLUMNS))
    pages = write_linked_pages(run, diagnoses, folder)
    write_page(
        folder / "index.html",
        "index.html",
        frame(run),
        root="",
        found=findings(run, diagnoses),
        lead=lead,
        plots=plots,
        facts=describe_run(run),
        head=_head(run),
        means=overall_lines(run.results),
        figure=figure,
        interval=interval,
        pages=pages,
        columns=COLUMNS,
        cell_text=cell_text,
        rows=rows[:ROWS_SHOWN],
        total=len(rows),
        shown=ROWS_SHOWN,
        filters=FILTERS,
        choices=choices(rows, FILTERS),
    )


def write_linked_pages(
    run: RunData, diagnoses: Mapping[str, Diagnosis], folder: Path
) -> dict[str, ReportPage]:
    """Write the registered pages that apply to the run; return them by the names of their files."""
    pages = {}
    for name in registry.names("report page"):
        page: ReportPage = registry.load("report page", name)()
        variables = page.variables(run, diagnoses, folder)
        if variables is not None:
            write_page(folder / f"{name}.html", page.template, frame(run), root="", **variables)
            pages[f"{name}.html"] = page
    return pages


def describe_run(run: RunData) -> list[tuple[str, str]]:
    """Return the properties of the run as (name, value)."""
    config, parts = run.config, run.parts
    scenes = {(state.question.dataset, state.question.scene) for state in run.states}
    width, height = config.image_size
    benchmark = [
        ("Benchmark", _benchmark(config)),
        ("Questions", f"{len(run.dialogues):,} in {count_noun(len(scenes), 'scene')}"),
    ]
    facts = [
        ("Model", run.model),
        ("Engine", config.engine),
        *(benchmark if config.batch else []),
        (
            "Views",
            f"{config.views}, {config.image_stress}" if parts.image_stress.note else config.views,
        ),
        *([("Agent", parts.agent_words)] if parts.agent.chooses else []),
        *([("Tools", config.tools)] if parts.toolset.note else []),
        ("Turns", _turns(config)),
        ("Images", f"{width} × {height} pixels, {config.field_of_view:g}° field of view"),
        *request_facts(config, run.results).items(),
    ]
    for part in report_parts().values():
        facts += part.facts(config).items()
    facts += cost_fact(parts, run.results).items()
    if work := run.results["totals"]["per_question"]:
        facts.append(("Mean per question", describe_cost(work)))
    if elapsed := sum(elapsed_by_turn(run.dialogues)):
        facts.append(("Elapsed time", format_duration(elapsed)))
    with suppress(UsageError, KeyError):  # too few scenes, or an old run without standard errors
        (half,) = (row for row in plan(run.results, 1, 0.8)["needs"] if row["correlation"] == 0.5)
        facts.append(
            (
                "Minimum detectable difference",
                f"{half['seen']:.1f} points between two runs of these questions (power 80 %, correlation 0.5)",
            )
        )
    if commit := run.record.get("commit"):
        facts.append(("Commit", str(commit)[:12]))
    return facts


def _benchmark(config: RunConfig) -> str:
    name = Path(config.benchmark).name
    return f"{name}, {config.subset}" if config.benchmark == VSIBENCH else name


def _head(run: RunData) -> dict[str, Any]:
    """Return the score with its confidence interval, sample size, chance levels and counts."""
    results = run.results
    main, counts, chance = headline(results), results["counts"], results["chance"]
    scenes = {(r["dataset"], r["scene"]) for r in results["questions"] if r["score"] is not None}
    return {
        "score": figure(main.score),
        "interval": interval(main.bounds),
        "label": main.name[:1].upper() + main.name[1:],
        "lenient": lenient_line(results),
        "only": "" if results["official"] is not None else "scored questions only",
        "n": main.n,
        "scenes": count_noun(len(scenes), "scene"),
        "chance": [(name, figure(chance[name].get(MACRO))) for name in ("random", "frequency")],
        "counts": [(label, counts[name]) for name, label in COUNT_LABELS.items() if counts.get(name)],
        "publish": what_to_publish(run),
    }  # fmt: skip


def what_to_publish(run: RunData) -> str | None:
    """Say whether the score can be published; None without a score, or for questions of one's own."""
    results = run.results
    main = headline(results)
    is_benchmark = run.config.batch and run.config.benchmark in registry.names("benchmark")
    if main.score is None or not is_benchmark:
        return None
    if results["status"] != "complete" or results[OFFICIAL] is None:
        return "Not for publication: only a part of the benchmark's questions is scored."
    if main.bounds is None:
        return None
    return f"For publication, report this score with its interval, {main.n:,} questions and the caveats."


def _turns(config: RunConfig) -> str:
    """Describe the maximum number of turns, and how many of them are batched."""
    num_batched = config.num_batched_turns
    part = "all" if num_batched == config.max_turns else f"the first {num_batched}"
    return f"at most {config.max_turns}, {part} batched"


def table_rows(run: RunData, diagnoses: Mapping[str, Diagnosis]) -> list[dict[str, Any]]:
    """Return one row per question, in the order of the run."""
    return [_row(state, run.rows[state.id], diagnoses.get(state.id)) for state in run.dialogues]


def _row(state: QuestionState, row: Row, diagnosis: Diagnosis | None) -> dict[str, Any]:
    """Return the values of COLUMNS and FILTERS for a question, its page, text and last image."""
    values = structs.asdict(row) | structs.asdict(diagnosis_columns(diagnosis))
    return {
        **{
            column.name: _display_value(column, values[column.name])
            for column in QUESTION_COLUMNS
            if column.cell or column.filter
        },
        "type": type_label(row.type),
        "status": STATUS_LABELS[Status(row.status)],
        "cause": None if diagnosis is None else diagnosis.cause.label,
        "outcome": outcome_label(row),
        "result": OUTCOME_LABELS[outcome_label(row)],
        "page": safe_name(state.id),
        "text": state.question.text,
        "picture": f"../{state.views[-1].file}" if state.views else None,
    }


def _display_value(column: Column, value: Any) -> Any:
    """Convert shares to percent; return other values unchanged."""
    if value is None or column.decimals is None:
        return value
    return round(100 * value, column.decimals or None)
