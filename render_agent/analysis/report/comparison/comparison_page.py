"""The pages of a comparison: the runs side by side, and a page for every question that changed sides."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any
from urllib.parse import quote

from render_agent.analysis.report.build import REPORT, copy_assets, link_pictures, remove_stale
from render_agent.analysis.report.comparison.comparison_plots import (
    differences,
    ladder,
    names_of,
    score_of,
    scores,
    words_of,
)
from render_agent.analysis.report.comparison.runs import Change, ComparedRun, Comparison
from render_agent.analysis.report.comparison.scan_pairs import scan_pairs
from render_agent.analysis.report.data import neighbours, page_of, write_page, write_text
from render_agent.analysis.report.index.index_page import script
from render_agent.analysis.report.maps.floor_plan import Plans
from render_agent.analysis.report.question.question_page import (
    QuestionPart,
    plans_of,
    question_part,
)
from render_agent.analysis.report.words import type_words
from render_agent.beliefs.belief_summary import WORDS
from render_agent.dialogue.state import QuestionState
from render_agent.observation.picture_store import safe_name
from render_agent.score.summary import OFFICIAL
from render_agent.score.tables import belief_cells, figure, interval, probability, signed
from render_agent.system.whole_files import write_whole
from render_agent.text.display import tracked

COLUMNS = ("id", "page", "type", "dataset", "scene", "outcome", "truth", "answer", "text")
"""The columns of a changed question's row in `questions.js`; outcome: how it changed."""

LISTED = ("type", "dataset", "scene", "outcome")


@dataclass(frozen=True, slots=True)
class SidePart:
    """One run's part of a page of a changed question; None where the run does not have it.

    prefix: of the ids of its parts. pictures: the way from the page to the folder of the run's pictures. plans:
    to the folder that its plan is named from. own: to the question's page in the run's own report, None where
    there is none.
    """

    run: ComparedRun
    part: QuestionPart | None
    prefix: str
    pictures: str
    plans: str
    own: str | None


def write_comparison(comparison: Comparison, folder: Path) -> Path:
    """Write all pages of a comparison into a folder and return its index.

    RunLogError where a file cannot be written.
    """
    copy_assets(folder)
    drawn = (scores(comparison), differences(comparison), ladder(comparison))
    plots = [plot for plot in drawn if plot is not None]
    for plot in plots:
        write_text(folder / "plots" / f"{plot.name}.svg", plot.svg)
    write_whole(folder / "questions.js", _script(comparison.changes), durable=False)
    _write_changed(comparison, folder)
    pairs = scan_pairs(comparison, folder)
    if pairs:
        shown = {"root": "", "runs": comparison.runs, "pairs": pairs}
        write_page(folder / "scans.html", "scans.html", comparison.frame, **shown)
    index = folder / "index.html"
    write_page(
        index,
        "compare.html",
        comparison.frame,
        root="",
        runs=[(run, _own_page(run, "index.html", folder)) for run in comparison.runs],
        table=_table(comparison),
        beliefs=_beliefs(comparison),
        tests=_tests(comparison),
        plots=plots,
        changes=[(change, page_of(change.question_id)) for change in comparison.changes],
        choices=_choices(comparison.changes),
        type_words=type_words,
        scans="scans.html" if pairs else None,
    )
    return index


def comparison_folder(runs: Sequence[Path]) -> Path:
    """Return the default folder for the pages of a comparison of these runs."""
    name = "-".join(run.name for run in runs)
    return runs[0].parent / "compare" / (name if len(name) <= 120 else safe_name(name))


def _write_changed(comparison: Comparison, folder: Path) -> None:
    frame = comparison.frame
    states = [{state.id: state for state in run.report.states} for run in comparison.runs]
    plans = [plans_of(run.report, folder / _shown(run)) for run in comparison.runs]
    beside = neighbours(change.question_id for change in comparison.changes)
    for run, own in zip(comparison.runs, states, strict=True):
        shown = (own[name] for name in beside if name in own)
        link_pictures(run.report.folder.path, shown, folder / run.letter.lower())
    try:
        for change in tracked(comparison.changes, "writing pages"):
            sides = [
                _side_part(run, own.get(change.question_id), drawn, folder)
                for run, own, drawn in zip(comparison.runs, states, plans, strict=True)
            ]
            write_page(
                folder / page_of(change.question_id),
                "compared.html",
                frame,
                root="../",
                change=change,
                sides=sides,
                rows=list(zip_longest(*(side.part.turns if side.part else () for side in sides))),
                before=beside[change.question_id][0],
                after=beside[change.question_id][1],
            )
    finally:
        for drawn in plans:
            drawn.close()
    remove_stale(folder, beside)


def _shown(run: ComparedRun) -> str:
    """Return the name of the scenes that a run was shown; where they are shuffled they are its own."""
    config = run.report.config
    own = f"{config.pictures}-{safe_name(run.report.name)}"
    return config.picture_stress.scene_set or own


def _side_part(
    run: ComparedRun, state: QuestionState | None, plans: Plans, folder: Path
) -> SidePart:
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
    letter = run.letter.lower()
    own = None if state is None else _own_page(run, page_of(state.id), folder, "questions")
    return SidePart(run, part, f"{letter}-", f"../{letter}/", f"../{_shown(run)}/", own)


def _own_page(run: ComparedRun, page: str, folder: Path, place: str = "") -> str | None:
    """Return the way from a page in `place` of the comparison's folder to one of a run's own report, None where there is none.

    Nor is there one where the comparison does not lie beside the runs: that folder is made to be handed on.
    """
    path = run.report.folder.path / REPORT / page
    beside = folder.absolute().parent.parent == run.report.folder.path.absolute().parent
    if not beside or not path.is_file():
        return None
    return quote(Path(os.path.relpath(path, folder / place)).as_posix())


def _table(comparison: Comparison) -> list[dict[str, Any]]:
    """Return a row for every mean and type: the score of each run, and how each differs."""
    return [
        {
            "name": words_of(name),
            "mean": name == OFFICIAL,
            "scores": [
                (figure(score), interval(within))
                for score, within in (score_of(run.report.results, name) for run in comparison.runs)
            ],
            "differences": [
                _difference(pair["differences"].get(name)) for pair in comparison.pairs
            ],
        }
        for name in names_of(comparison)
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


def _script(changes: Sequence[Change]) -> bytes:
    """Return `questions.js`: a row a question, with its type, scene and truth from the first run that has it."""
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
