"""The pages of a comparison: the runs side by side, and a page for every question that changed sides."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from render_agent.analysis.report.build import copy_assets
from render_agent.analysis.report.comparison.comparison_plots import (
    differences,
    names_of,
    score_of,
    scores,
    words_of,
)
from render_agent.analysis.report.comparison.runs import Change, ComparedRun, Comparison
from render_agent.analysis.report.index.question_rows import script
from render_agent.analysis.report.maps.floor_plan import Plans
from render_agent.analysis.report.question.question_page import QuestionPart, question_part
from render_agent.analysis.report.words import type_words
from render_agent.dialogue.chat import encodable
from render_agent.dialogue.state import QuestionState
from render_agent.observation.picture_store import safe_name
from render_agent.render.registry import make_renderer
from render_agent.score.summary import OFFICIAL
from render_agent.score.tables import figure, interval, probability, signed
from render_agent.system.whole_files import write_whole
from render_agent.web.templates import environment

COLUMNS = ("id", "page", "type", "dataset", "scene", "outcome", "truth", "answer", "text")
"""The columns of a changed question's row in `questions.js`; outcome: how it changed."""

LISTED = ("type", "dataset", "scene", "outcome")


@dataclass(frozen=True, slots=True)
class Beside:
    """One run's part of a page of a changed question; None where the run does not have it.

    prefix: of the ids of its parts. pictures: the way from the page to the run folder. plans: to the
    folder that its plan is named from.
    """

    run: ComparedRun
    part: QuestionPart | None
    prefix: str
    pictures: str
    plans: str


def write_comparison(found: Comparison, place: Path) -> Path:
    """Write all pages of a comparison into a folder and return its index.

    RunLogError where a file cannot be written.
    """
    copy_assets(place)
    plots = [plot for plot in (scores(found), differences(found)) if plot is not None]
    for plot in plots:
        _write(place / "plots" / f"{plot.name}.svg", plot.svg)
    write_whole(place / "questions.js", _script(found.changes), durable=False)
    _write_changed(found, place)
    page = environment("analysis/report").get_template("compare.html")
    told = page.render(
        found.frame,
        root="",
        runs=[(run, _report_of(run, place)) for run in found.runs],
        table=_table(found),
        tests=_tests(found),
        plots=plots,
        changes=[(change, _page_of(change)) for change in found.changes],
        choices=_choices(found.changes),
        type_words=type_words,
    )
    index = place / "index.html"
    _write(index, told)
    return index


def comparison_folder(runs: Sequence[Path]) -> Path:
    """Return where the pages of a comparison of these runs lie unless said otherwise."""
    name = "-".join(run.name for run in runs)
    return runs[0].parent / "compare" / (name if len(name) <= 120 else safe_name(name))


def _write_changed(found: Comparison, place: Path) -> None:
    states = [{state.id: state for state in run.report.states} for run in found.runs]
    plans = [_plans(run, place) for run in found.runs]
    pages = [None, *(_page_of(change) for change in found.changes), None]
    template, frame = environment("analysis/report").get_template("compared.html"), found.frame
    try:
        for number, change in enumerate(found.changes):
            sides = [
                _beside(run, own.get(change.question_id), drawn, place)
                for run, own, drawn in zip(found.runs, states, plans, strict=True)
            ]
            told = template.render(
                frame,
                root="../",
                change=change,
                sides=sides,
                rows=list(_aligned(sides)),
                before=_name(pages[number]),
                after=_name(pages[number + 2]),
            )
            _write(place / _page_of(change), told)
    finally:
        for drawn in plans:
            drawn.close()
    wanted = {_name(page) for page in pages}
    for file in (place / "questions").glob("*.html"):
        if file.name not in wanted:
            file.unlink()


def _plans(run: ComparedRun, place: Path) -> Plans:
    """Return the plans of a run: runs that were shown the same scenes share them."""
    config = run.report.config
    chosen = [state.question for state in run.report.states]
    return Plans(
        place / _shown(run),
        config.picture_stress.scenes(config, chosen),
        lambda: make_renderer("rasteriser"),
    )


def _shown(run: ComparedRun) -> str:
    """Return the name of the scenes that a run was shown; where they are shuffled they are its own."""
    config = run.report.config
    own = f"{config.pictures}-{safe_name(run.report.name)}"
    return config.picture_stress.scene_set or own


def _beside(run: ComparedRun, state: QuestionState | None, plans: Plans, place: Path) -> Beside:
    report, part = run.report, None
    if state is not None:
        diagnosis = report.diagnoses.get(state.id)
        part = question_part(
            state,
            report.rows[state.id],
            diagnosis,
            plans.of(state, diagnosis),
            report.config,
        )
    there = _way(report.folder.path, place / "questions")
    return Beside(run, part, f"{run.letter.lower()}-", f"{there}/", f"../{_shown(run)}/")


def _aligned(sides: Sequence[Beside]) -> Iterator[tuple[Any, ...]]:
    """Yield the turns of one number of all runs, None for a run that has ended."""
    yield from zip_longest(*(side.part.turns if side.part else () for side in sides))


def _report_of(run: ComparedRun, place: Path) -> str | None:
    """Return the way to a run's own report, None where there is none."""
    index = run.report.folder.path / "report" / "index.html"
    return _way(index, place) if index.is_file() else None


def _way(path: Path, place: Path) -> str:
    """Return the address of a file on pages that lie in `place`: a folder's name may hold any sign."""
    return quote(Path(os.path.relpath(path, place)).as_posix())


def _table(found: Comparison) -> list[dict[str, Any]]:
    """Return a row for every mean and type: the score of each run, and how each differs."""
    return [
        {
            "name": words_of(name),
            "mean": name == OFFICIAL,
            "scores": [
                (figure(score), interval(within))
                for score, within in (score_of(run.report.results, name) for run in found.runs)
            ],
            "differences": [_difference(pair["differences"].get(name)) for pair in found.pairs],
        }
        for name in names_of(found)
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
        "side": side,
    }


def _tests(found: Comparison) -> list[tuple[str, str, int, int, int, str]]:
    """Return McNemar's tests: the pair, what of, how many, right in one alone, p."""
    first = found.runs[0].letter
    return [
        (
            f"{run.letter} against {first}",
            "all choices" if name == "choices" else type_words(name),
            test["n"],
            test["only_b"],
            test["only_a"],
            probability(test["p"]),
        )
        for run, pair in zip(found.runs[1:], found.pairs, strict=True)
        for name, test in pair["mcnemar"].items()
    ]


def _choices(changes: Sequence[Change]) -> dict[str, list[tuple[str, int]]]:
    """Return what the filter offers, with how many questions each keeps."""
    found: dict[str, dict[str, int]] = {"outcome": {}, "type": {}}
    for change in changes:
        for name, value in (("outcome", change.change), ("type", change.first["type"])):
            found[name][value] = found[name].get(value, 0) + 1
    return {name: sorted(values.items()) for name, values in found.items()}


def _script(changes: Sequence[Change]) -> bytes:
    """Return `questions.js`, in which a row tells what the first run that has the question says of it."""
    rows = [
        {
            **{name: change.first[name] for name in ("type", "dataset", "scene", "truth")},
            "id": change.question_id,
            "page": safe_name(change.question_id),
            "outcome": change.change,
            "answer": ", ".join(str(row["answer"]) for row in change.rows if row is not None),
            "text": change.text,
        }
        for change in changes
    ]
    return script(rows, COLUMNS, LISTED)


def _page_of(change: Change) -> str:
    return f"questions/{safe_name(change.question_id)}.html"


def _name(page: str | None) -> str | None:
    return None if page is None else page.rpartition("/")[2]


def _write(path: Path, text: str) -> None:
    write_whole(path, encodable(text).encode("utf-8"), durable=False)
