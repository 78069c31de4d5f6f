"""The index of a report: what the run came to, and the table of its questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.analysis.report.comparison import ablation_table as beside
from render_agent.analysis.report.data import ReportData
from render_agent.analysis.report.index import headline
from render_agent.analysis.report.index.question_rows import LISTED, question_rows, script
from render_agent.analysis.report.plots import cost_plots as cost_figures
from render_agent.analysis.report.plots import outcome_plots as figures
from render_agent.analysis.report.words import type_words
from render_agent.score.means import MACRO
from render_agent.score.tables import figure, interval, overall_lines, took
from render_agent.system.whole_files import write_whole
from render_agent.web.templates import environment

SHOWN = 100
"""Rows of the table that are on a page at once."""


def write(report: ReportData, place: Path) -> None:
    """Write the index, the plain list of all questions, the plots and `questions.js`."""
    rows = question_rows(report)
    score = [
        plot
        for plot in (
            headline.against_papers(report),
            headline.against_chance(report),
            headline.by_dataset(report),
        )
        if plot
    ]
    behaviour, costs = figures.behaviour(report), cost_figures.costs(report)
    siblings = beside.against_siblings(report)
    for plot in (*score, *behaviour, *costs, *([siblings.plot] if siblings else [])):
        _write(place / "plots" / f"{plot.name}.svg", plot.svg)
    write_whole(place / "questions.js", script(rows), durable=False)
    shared = {**report.frame, "root": "", "type_words": type_words}
    _write(place / "all.html", _render("all.html", shared, scenes=_by_scene(rows)))
    _write(
        place / "index.html",
        _render(
            "index.html",
            shared,
            facts=_facts(report),
            head=_head(report),
            means=_means(report),
            score=score,
            behaviour=behaviour,
            costs=costs,
            siblings=siblings,
            rows=rows[:SHOWN],
            total=len(rows),
            shown=SHOWN,
            choices=_choices(rows),
        ),
    )


def _render(name: str, shared: Mapping[str, Any], **more: Any) -> str:
    found: str = environment("analysis/report").get_template(name).render(**shared, **more)
    return found


def _write(path: Path, text: str) -> None:
    write_whole(path, text.encode("utf-8", "backslashreplace"), durable=False)


def _facts(report: ReportData) -> list[tuple[str, str]]:
    """Return what the run was, as names and values."""
    config, record = report.config, report.record
    scenes = {(state.question.dataset, state.question.scene) for state in report.states}
    width, height = config.image_size
    facts = [
        ("Model", config.model_name),
        ("Engine", config.engine),
        ("Benchmark", _benchmark(report)),
        ("Questions", f"{len(report.states):,} about {_some(len(scenes), 'scene')}"),
        (
            "Views",
            f"{config.views}, {config.pictures}" if config.picture_stress.note else config.views,
        ),
        ("Turns", f"at most {config.max_turns}, the first {config.max_batched_turns} batched"),
        ("Pictures", f"{width} × {height} pixels, {config.field_of_view:g}° wide"),
        ("Seed", str(config.seed)),
    ]
    if config.agent_plan.chooses:
        facts.insert(5, ("Agent", config.agent_words))
    if work := report.results["totals"]["per_question"]:
        facts.append(("A question took", took(work)))
    if commit := record.get("commit"):
        facts.append(("Commit", str(commit)[:12]))
    return facts


def _benchmark(report: ReportData) -> str:
    config = report.config
    if not config.batch:
        return "a question of one's own"
    name = Path(config.benchmark).name
    return f"{name}, {config.subset}" if config.asks_vsibench else name


def _some(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def _head(report: ReportData) -> dict[str, Any]:
    """Return the official score with what must stand beside it."""
    found = report.results
    score, over = headline.official(found), found["official_over_scored"]["n"]
    counts, chance = found["counts"], found["chance"]
    scenes = {(r["dataset"], r["scene"]) for r in found["questions"] if r["score"] is not None}
    met = ("answered", "exhausted", "failed", "missing", "active", "repaired")
    return {
        "score": figure(score),
        "interval": interval(list(headline.bounds_of(found) or []) or None),
        "label": "Official score, %" if found["official"] is not None else "Official score of those scored, %",
        "n": over,
        "scenes": _some(len(scenes), "scene"),
        "chance": [(name, figure(chance[name].get(MACRO))) for name in ("random", "frequency")],
        "counts": [(name, counts[name]) for name in met if counts.get(name)],
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


def _choices(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Return the texts that each filter offers, those of columns with a single one left out."""
    found = {name: sorted({row[name] for row in rows if row[name]}) for name in LISTED}
    return {name: texts for name, texts in found.items() if len(texts) > 1 or name == "outcome"}


def _by_scene(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["dataset"], row["scene"]), []).append(row)
    return dict(sorted(found.items()))
