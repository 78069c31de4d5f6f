"""The index of a report: the score of the run, its plots, and the table of its questions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.analysis.report.data import ReportData, write_page, write_text
from render_agent.analysis.report.index import headline
from render_agent.analysis.report.index.findings import findings
from render_agent.analysis.report.pairs.pairs_page import figure_rows, write_pairs
from render_agent.analysis.report.plots.belief_plots import belief_plots
from render_agent.analysis.report.plots.cost_plots import cost_plots
from render_agent.analysis.report.plots.outcome_plots import outcome_plots
from render_agent.analysis.report.plots.vector_plot import Plot
from render_agent.analysis.report.words import outcome, type_words
from render_agent.config import RunConfig
from render_agent.dialogue.state import QuestionState
from render_agent.errors import UsageError
from render_agent.observation.picture_store import safe_name
from render_agent.score.means import MACRO
from render_agent.score.power import plan
from render_agent.score.summary import ON_PARSED
from render_agent.score.tables import figure, interval, overall_lines, took
from render_agent.system.whole_files import write_whole
from render_agent.text.display import counted

ROWS_SHOWN = 100
"""Rows of the table that are on a page at once."""

COLUMNS = (
    "id", "page", "type", "dataset", "scene", "status", "outcome", "cause", "answer", "truth", "score",
    "turns", "coverage", "text", "picture",
)  # fmt: skip
"""The columns of a row. page: the file in questions/, without .html. score, coverage: percent. picture:
the last that it was shown, in the folder of the run."""

LISTED = ("type", "dataset", "scene", "status", "outcome", "cause")
"""Those of them of which few different texts are met: a row holds the text's place in a list."""


@dataclass(frozen=True, slots=True)
class ScorePlots:
    """The plots for which nothing needs to be diagnosed: of scores, against runs beside it, and of costs."""

    lead: Plot | None
    score: Sequence[Plot]
    siblings: headline.SiblingScores | None
    costs: Sequence[Plot]

    @classmethod
    def of(cls, report: ReportData) -> ScorePlots:
        """Draw them."""
        score = (headline.against_papers(report), headline.by_dataset(report))
        return cls(
            headline.against_chance(report),
            list(filter(None, score)),
            headline.against_siblings(report),
            cost_plots(report),
        )


def write_index(report: ReportData, folder: Path, scores: ScorePlots | None = None) -> None:
    """Write the index, the plain list of all questions, the plots and `questions.js`.

    scores: where they were drawn already.
    """
    rows = question_rows(report)
    scores = scores or ScorePlots.of(report)
    lead, siblings = scores.lead, scores.siblings
    behaviour = [*belief_plots(report), *outcome_plots(report)]
    for plot in filter(
        None,
        (lead, *scores.score, *behaviour, *scores.costs, siblings.plot if siblings else None),
    ):
        write_text(folder / "plots" / f"{plot.name}.svg", plot.svg)
    write_whole(folder / "questions.js", script(rows), durable=False)
    write_pairs(report, folder)
    causal = report.results.get("causal")
    shared = {**report.frame, "root": "", "type_words": type_words}
    write_page(folder / "all.html", "all.html", shared, scenes=_by_scene(rows))
    write_page(
        folder / "index.html",
        "index.html",
        shared,
        found=findings(report),
        lead=lead,
        facts=_facts(report),
        head=_head(report),
        means=_means(report),
        score=scores.score,
        behaviour=behaviour,
        costs=scores.costs,
        siblings=siblings,
        pairs=figure_rows(causal) if causal else None,
        rows=rows[:ROWS_SHOWN],
        total=len(rows),
        shown=ROWS_SHOWN,
        choices=_choices(rows),
    )


def _facts(report: ReportData) -> list[tuple[str, str]]:
    """Return what the run was, as names and values."""
    config, record = report.config, report.record
    asked = [state.question.unchanged for state in report.states]
    scenes = {(question.dataset, question.scene) for question in asked}
    width, height = config.image_size
    facts = [
        ("Model", config.model_name),
        ("Engine", config.engine),
        ("Benchmark", _benchmark(report)),
        ("Questions", f"{len(report.states):,} about {counted(len(scenes), 'scene')}"),
        (
            "Views",
            f"{config.views}, {config.pictures}" if config.picture_stress.note else config.views,
        ),
        ("Turns", _turns(config)),
        ("Pictures", f"{width} × {height} pixels, {config.field_of_view:g}° wide"),
        ("Seed", str(config.seed)),
    ]
    if config.toolset.note:
        facts.insert(5, ("Tools", config.tools))
    if config.turn_agent.chooses:
        facts.insert(5, ("Agent", config.agent_words))
    if config.probe:
        facts.append(("Asked what it believes", f"{', '.join(config.probe)}, every turn"))
    if work := report.results["totals"]["per_question"]:
        facts.append(("A question took", took(work)))
    with suppress(UsageError, KeyError):  # too few scenes; a run of before errors were written
        (half,) = (
            row for row in plan(report.results, 1, 0.8)["needs"] if row["correlation"] == 0.5
        )
        facts.append(
            (
                "Least difference it can show",
                f"{half['seen']:.1f} points, to another run of these questions (power 80 %, correlation 0.5)",
            )
        )
    if commit := record.get("commit"):
        facts.append(("Commit", str(commit)[:12]))
    return facts


def _benchmark(report: ReportData) -> str:
    config = report.config
    if not config.batch:
        return "a question of one's own"
    name = Path(config.benchmark).name
    return f"{name}, {config.subset}" if config.asks_vsibench else name


def _head(report: ReportData) -> dict[str, Any]:
    """Return the official score with what must stand beside it."""
    results = report.results
    score, over = headline.official(results), results["official_over_scored"]["n"]
    counts, chance = results["counts"], results["chance"]
    scenes = {(r["dataset"], r["scene"]) for r in results["questions"] if r["score"] is not None}
    statuses = ("answered", "exhausted", "failed", "missing", "active", "repaired")
    return {
        "score": figure(score),
        "interval": interval(headline.bounds_of(results)),
        "label": f"{ON_PARSED[0].upper()}{ON_PARSED[1:]}, %{'' if results['official'] is not None else ', of those scored'}",
        "n": over,
        "scenes": counted(len(scenes), "scene"),
        "chance": [(name, figure(chance[name].get(MACRO))) for name in ("random", "frequency")],
        "counts": [(name, counts[name]) for name in statuses if counts.get(name)],
    }  # fmt: skip


def _means(report: ReportData) -> list[tuple[str, str, str, str]]:
    """Return every overall figure: its name, n, score, interval."""
    return [
        (
            line.label,
            "" if line.number is None else f"{line.number:,}",
            figure(line.score),
            interval(line.bounds) or "–",
        )
        for line in overall_lines(report.results)
    ]


def _turns(config: RunConfig) -> str:
    """Return how many turns a question has, and how many of them were batched."""
    batched = min(config.max_batched_turns, config.max_turns)
    part = "all of them" if batched == config.max_turns else f"the first {batched}"
    return f"at most {config.max_turns}, {part} batched"


def _choices(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the values that each filter offers, those of columns with a single one left out."""
    filtered = (*LISTED, "turns")
    choices = {name: sorted({row[name] for row in rows if row[name]}) for name in filtered}
    return {name: texts for name, texts in choices.items() if len(texts) > 1 or name == "outcome"}


def _by_scene(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    scenes: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        scenes.setdefault((row["dataset"], row["scene"]), []).append(row)
    return dict(sorted(scenes.items()))


def question_rows(report: ReportData) -> list[dict[str, Any]]:
    """Return a row a question by COLUMNS, in the order of the run; None where nothing is known."""
    return [_row(report, state) for state in report.states]


def script(
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str] = COLUMNS,
    listed: Collection[str] = LISTED,
) -> bytes:
    """Return `questions.js`, which sets window.REPORT; it is ASCII, whatever the texts hold.

    listed: the columns whose texts stand in a list, of which a row holds the index.
    """
    values = {name: sorted({row[name] for row in rows if row[name]}) for name in listed}
    indices = {name: {text: n for n, text in enumerate(texts)} for name, texts in values.items()}
    compact = [
        [indices[name].get(row[name]) if name in indices else row[name] for name in columns]
        for row in rows
    ]
    data = {"columns": columns, "values": values, "rows": compact}
    return b"window.REPORT = " + json.dumps(data, separators=(",", ":")).encode() + b";\n"


def _row(report: ReportData, state: QuestionState) -> dict[str, Any]:
    question_id, views = state.id, state.views
    row = report.rows[question_id]
    diagnosis = report.diagnoses.get(question_id)
    coverage = diagnosis.coverage if diagnosis else None
    return {
        "id": question_id,
        "page": safe_name(question_id),
        "type": row["type"],
        "dataset": row["dataset"],
        "scene": row["scene"],
        "status": row["status"],
        "outcome": outcome(row),
        "cause": str(diagnosis.cause) if diagnosis else None,
        "answer": row["answer"],
        "truth": row["truth"],
        "score": None if row["score"] is None else round(100 * row["score"], 1),
        "turns": row["turns"],
        "coverage": None if coverage is None else round(100 * coverage, 1),
        "text": state.question.text,
        "picture": views[-1].file if views else None,
    }
