"""The pages of a comparison: the runs side by side, and a page for every question that changed sides."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from render_agent.dialogue.state import QuestionState
from render_agent.errors import RunLogError, os_errors
from render_agent.report.pages.build import REPORT
from render_agent.report.pages.comparison.runs import Change, ComparedRun, Comparison
from render_agent.report.pages.data import copy_assets, neighbours, page_of, write_page
from render_agent.report.pages.index.index_page import write_plots
from render_agent.report.pages.maps.floor_plan import Plans
from render_agent.report.pages.plots import palette
from render_agent.report.pages.plots.run_plots import INTERVALS, Plot
from render_agent.report.pages.plots.svg import draw_svg, interval_line, legend, name_rows
from render_agent.report.pages.question.question_page import plans_of
from render_agent.report.pages.question.question_view import QuestionView
from render_agent.report.pages.table import table_script
from render_agent.report.pages.words import in_order, type_words
from render_agent.score.beliefs.belief_summary import WORDS
from render_agent.score.summary import OFFICIAL, row_names
from render_agent.score.tables import belief_cells, figure, interval, probability, signed
from render_agent.util.display import tracked
from render_agent.views.picture_store import safe_name

MARKS = "osD^vP"
"""How the runs are told apart, beside the colours of the palette."""

MEANS = (OFFICIAL, "micro")
"""The means beside the types."""


@dataclass(frozen=True, slots=True)
class Side:
    """One run's part of a page of a changed question; None if the run does not have it.

    prefix: of the ids of its parts. pictures: the way from the page to the run folder. plans: to the folder that its
    plan is named from. own: to the question's page in the run's own report, None if there is none.
    """

    run: ComparedRun
    q: QuestionView | None
    prefix: str
    pictures: str
    plans: str
    own: str | None


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write all pages of a comparison into a folder and return its index; their pictures stay in the run folders.

    RunLogError if a file cannot be written.
    """
    with os_errors(RunLogError, f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        copy_assets(folder)
        plot = differences(comparison)
        write_plots(folder, [plot] if plot else [])
        _write_changed(comparison, folder)
        (folder / "questions.js").write_bytes(table_script(_rows(comparison.changes)))
        write_page(
            folder / "index.html",
            "compare.html",
            comparison.frame,
            root="",
            runs=[(run, _own_page(run, "index.html", folder)) for run in comparison.runs],
            table=_table(comparison),
            beliefs=_beliefs(comparison),
            tests=_tests(comparison),
            plot=plot,
            changes=[(change, page_of(change.question_id)) for change in comparison.changes],
            choices=_choices(comparison.changes),
            type_words=type_words,
        )
    return folder / "index.html"


def comparison_folder(runs: Sequence[Path]) -> Path:
    """Return the default folder for the pages of a comparison of these runs."""
    name = "-".join(run.name for run in runs)
    return runs[0].parent / "compare" / (name if len(name) <= 120 else safe_name(name))


def _write_changed(comparison: Comparison, folder: Path) -> None:
    states = [{state.id: state for state in run.report.states} for run in comparison.runs]
    beside = neighbours(change.question_id for change in comparison.changes)
    with ExitStack() as stack:
        plans = [
            stack.enter_context(closing(plans_of(run.report, folder / _shown(run))))
            for run in comparison.runs
        ]
        for change in tracked(comparison.changes, "writing pages"):
            sides = [
                _side(run, own.get(change.question_id), drawn, folder)
                for run, own, drawn in zip(comparison.runs, states, plans, strict=True)
            ]
            before, after = beside[change.question_id]
            write_page(
                folder / page_of(change.question_id),
                "compared.html",
                comparison.frame,
                root="../",
                change=change,
                sides=sides,
                rows=list(zip_longest(*(side.q.state.turns if side.q else () for side in sides))),
                before=before,
                after=after,
            )


def _shown(run: ComparedRun) -> str:
    """Return the name of the scenes that a run was shown; where they are shuffled they are its own."""
    config = run.report.config
    own = f"{config.pictures}-{safe_name(run.report.name)}"
    return config.picture_stress.scene_set or own


def _side(run: ComparedRun, state: QuestionState | None, plans: Plans, folder: Path) -> Side:
    report, q, own = run.report, None, None
    if state is not None:
        diagnosis = report.diagnoses.get(state.id)
        plan = plans.of(state, diagnosis)
        q = QuestionView(state, report.rows[state.id], diagnosis, plan, report.config)
        own = _own_page(run, page_of(state.id), folder / "questions")
    pictures = f"{_way(run.report.folder.path, folder / 'questions')}/"
    return Side(run, q, f"{run.letter.lower()}-", pictures, f"../{_shown(run)}/", own)


def _own_page(run: ComparedRun, page: str, place: Path) -> str | None:
    """Return the way from a folder of the comparison to a page of a run's own report, None if there is none."""
    path = run.report.folder.path / REPORT / page
    return _way(path, place) if path.is_file() else None


def _way(path: Path, place: Path) -> str:
    return quote(Path(os.path.relpath(path, place)).as_posix())


def names_of(comparison: Comparison) -> list[str]:
    """Return the means and types that both runs of any pair have, the mean of tasks first."""
    known = {name for pair in comparison.pairs for name in pair["differences"]}
    types = {row["type"] for run in comparison.runs for row in run.report.rows.values()}
    return [name for name in MEANS if name in known] + in_order(types & known)


def words_of(name: str, names: Sequence[str]) -> str:
    """Return a mean or a type in words; names: all that are compared."""
    if name == OFFICIAL:
        return row_names(names)[OFFICIAL]
    return "mean of questions" if name == "micro" else type_words(name)


def score_of(results: Any, name: str) -> tuple[float | None, list[float] | None]:
    """Return a run's own score in percent by the name of a mean or type, and its interval."""
    bounds = results["intervals"].get(name)
    if name == OFFICIAL:
        return results["official_over_scored"]["score"], bounds
    if name in results["types"]:
        return results["types"][name]["score"], bounds
    return results.get(name), bounds


def differences(comparison: Comparison) -> Plot | None:
    """The paired differences from the first run by type; None if the runs have nothing in common."""
    names = names_of(comparison)
    if not names:
        return None
    first, others = comparison.runs[0].letter, comparison.runs[1:]

    def paint(figure: Any) -> None:
        axes = figure.subplots()
        for number, (run, pair) in enumerate(zip(others, comparison.pairs, strict=True), 1):
            colour, mark = palette.CYCLE[number % len(palette.CYCLE)], MARKS[number % len(MARKS)]
            aside = (number - (len(others) + 1) / 2) * 0.6 / len(others)
            points = []
            for y, name in enumerate(names):
                entry = pair["differences"].get(name)
                if entry and entry["difference"] is not None:
                    interval_line(axes, entry["interval"], y + aside, colour)
                    points.append((entry["difference"], y + aside))
            if points:
                label = f"{run.letter} − {first}"
                axes.plot(*zip(*points, strict=True), mark, color=colour, ms=5.5, label=label)
        name_rows(axes, [words_of(name, names) for name in names])
        axes.grid(axis="x")
        axes.axvline(0, color=palette.INK, lw=0.9)
        reach = max(5.0, *(abs(end) for end in axes.get_xlim()))
        axes.set_xlim(-reach, reach)
        axes.set_xlabel(f"difference from {first}, points")
        legend(axes, 6)

    return Plot(
        "differences",
        f"Paired differences from {first}",
        f"A mark per run at its difference from {first} with its 95 % interval; right of zero is better.",
        draw_svg(paint, height=1.1 + 0.16 * len(names) * (1 + len(others) / 2)),
        f"Over the questions that both runs have scored; right of zero is better than {first}. {INTERVALS}",
    )


def _table(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for every mean and type: the score of each run, and how each differs."""
    names = names_of(comparison)
    return [
        {
            "name": words_of(name, names),
            "mean": name == OFFICIAL,
            "scores": [
                (figure(score), interval(within))
                for score, within in (score_of(run.report.results, name) for run in comparison.runs)
            ],
            "differences": [
                _difference(pair["differences"].get(name)) for pair in comparison.pairs
            ],
        }
        for name in names
    ]


def _difference(entry: Any) -> dict[str, Any] | None:
    if entry is None or entry["difference"] is None:
        return None
    low, high = entry["interval"] or (0.0, 0.0)
    side = "better" if low > 0 else "worse" if high < 0 else ""
    return {
        "value": signed(entry["difference"]),
        "interval": interval(entry["interval"]),
        "p": probability(entry["p"]),
        "p_holm": probability(entry["p_holm"]),
        "side": side,
    }


def _tests(comparison: Comparison) -> list[tuple[str, str, int, int, int, str, str]]:
    """Return McNemar's tests: the pair, what of, how many, right in one alone, p, p by Holm."""
    first = comparison.runs[0].letter
    return [
        (
            f"{run.letter} against {first}",
            "all choices" if name == "choices" else type_words(name),
            test["n"],
            test["only_b"],
            test["only_a"],
            probability(test["p"]),
            probability(test["p_holm"]),
        )
        for run, pair in zip(comparison.runs[1:], comparison.pairs, strict=True)
        for name, test in pair["mcnemar"].items()
    ]


def _beliefs(comparison: Comparison) -> list[tuple[str, str, list[str]]]:
    """Return a row a figure of beliefs and run but the first: what it is, the pair, how many questions, its cells."""
    first = comparison.runs[0].letter
    return [
        (WORDS[name], f"{run.letter} − {first}", [f"{entry['n']:,}", *belief_cells(entry)])
        for name in WORDS
        for run, pair in zip(comparison.runs[1:], comparison.pairs, strict=True)
        if (entry := pair.get("beliefs", {}).get(name)) is not None
    ]


def _choices(changes: Sequence[Change]) -> dict[str, list[tuple[str, int]]]:
    """Return what the filter offers, with how many questions each keeps."""
    return {
        "outcome": sorted(Counter(change.change for change in changes).items()),
        "type": sorted(Counter(change.first["type"] for change in changes).items()),
    }


def _rows(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Return what the filter reads of every question: its type, scene and truth from the first run that has it."""
    return [
        {
            **{name: change.first[name] for name in ("type", "dataset", "scene", "truth")},
            "question_id": change.question_id,
            "page": safe_name(change.question_id),
            "outcome": change.change,
            "answer": ", ".join(str(row["answer"]) for row in change.rows if row is not None),
            "text": change.text,
        }
        for change in changes
    ]
