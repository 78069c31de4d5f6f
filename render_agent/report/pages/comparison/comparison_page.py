"""Pages of a comparison: the runs side by side, and one page for each question with a changed outcome."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import zip_longest
from pathlib import Path
from string import ascii_uppercase as LETTERS
from typing import Any
from urllib.parse import quote

from render_agent.errors import RunLogError, UsageError, os_errors
from render_agent.report.answering.evidence import compare_evidence
from render_agent.report.comparison.compare_runs import compared_figures
from render_agent.report.comparison.comparison_table import FORMATS, table_cells
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.pages.build import REPORT
from render_agent.report.pages.comparison.changes import AnswerChange, changed_questions
from render_agent.report.pages.maps.floor_plan import FloorPlanCache
from render_agent.report.pages.page import (
    banners,
    copy_assets,
    neighbours,
    notes,
    page_of,
    write_page,
)
from render_agent.report.pages.plots.run_plots import (
    Plot,
    interval_note,
    plot_images,
    write_plots,
)
from render_agent.report.pages.plots.svg import Dots, draw_dots, series_style
from render_agent.report.pages.question.question_view import QuestionView, question_view
from render_agent.report.pages.table import table_script
from render_agent.report.sentences.facts import cost_fact, facts_line, request_facts
from render_agent.report.sentences.verdicts import (
    by_sides,
    differences,
    direction,
    other_verdicts,
    verdict,
)
from render_agent.runs.read import RunData
from render_agent.score.summary import OFFICIAL_RAW, headline, row_names
from render_agent.score.tables import (
    describe_cost,
    difference_cells,
    figure,
    format_signed,
    interval_cell,
    probability,
)
from render_agent.tasks.question_types import sort_types, type_label
from render_agent.util.display import track
from render_agent.views.image_store import safe_name

MAX_RUNS = len(LETTERS)  # each run is labelled with a letter

Pairs = Sequence[Mapping[str, Any]]


def write_comparison(
    runs: Sequence[RunData],
    pairs: Pairs,  # the comparison of each later run with the first, from `compare_alike`
    folder: Path,
    *,
    diagnose: bool = True,
) -> Path:
    """Write the pages of a comparison and return the path of the index page.

    The pages refer to the images in the run folders.
    """
    if len(runs) > MAX_RUNS:
        raise UsageError(f"cannot compare {len(runs)} runs: the maximum is {MAX_RUNS}")
    changes = changed_questions(runs)
    variables = _frame(runs, pairs)
    with os_errors(RunLogError, f"write {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        copy_assets(folder)
        evidence = compare_evidence(runs, pairs) if diagnose else []
        curves = [pair["score_by_images"]["b"] for pair in pairs]
        curves.insert(0, pairs[0]["score_by_images"]["a"])
        images = plot_images(dict(zip(LETTERS, curves, strict=False)))
        plots = write_plots(folder, plot_differences(runs, pairs), images)
        options = _options(pairs)
        _write_changed(runs, changes, options, variables, folder, diagnose=diagnose)
        (folder / "questions.js").write_bytes(table_script(_rows(changes)))
        write_page(
            folder / "index.html",
            "compare.html",
            variables,
            root="",
            runs=[
                _head(run, letter)
                | {
                    "page": _own_page(run, "index.html", folder),
                    "questions": len(run.dialogues),
                    "scored": headline(run.results).n,
                    "took": describe_cost(work)
                    if (work := run.results["totals"]["per_question"])
                    else "–",
                }
                for run, letter in zip(runs, LETTERS, strict=False)
            ],
            verdicts=[
                sentence
                for letter, pair in zip(LETTERS[1:], pairs, strict=False)
                for sentence in (
                    verdict(pair, LETTERS[0], letter, of_several=len(pairs) > 1),
                    *other_verdicts(pair, LETTERS[0], letter),
                )
            ]
            + evidence,
            options=options,
            copies=_copies(pairs, LETTERS[: len(runs)]),
            table=_table(runs, pairs),
            figures=_figures(pairs),
            tests=_tests(pairs),
            plots=plots,
            changes=[(change, page_of(change.question.id)) for change in changes],
            choices={  # value of each filter -> number of questions
                "outcome": sorted(Counter(change.change for change in changes).items()),
                "type": sorted(Counter(change.first.type for change in changes).items()),
            },
            type_label=type_label,
        )
    return folder / "index.html"


def comparison_folder(runs: Sequence[Path]) -> Path:
    """Return the default folder for the pages of a comparison of these runs."""
    name = "-".join(run.name for run in runs)
    return runs[0].parent / "compare" / (name if len(name) <= 120 else safe_name(name))


def _frame(runs: Sequence[RunData], pairs: Pairs) -> dict[str, Any]:
    """Return the variables of `base.html`, except `root`."""
    not_comparable = [
        f"NOT COMPARABLE, {letter}: {warning}"
        for letter, pair in zip(LETTERS[1:], pairs, strict=False)
        for warning in pair["warnings"]
    ]
    return {
        "name": " vs. ".join(run.name for run in runs),
        "stamps": by_sides(dict(zip(LETTERS, map(banners, runs), strict=False))) + not_comparable,
        "notes": by_sides(dict(zip(LETTERS, map(notes, runs), strict=False))),
    }


def _head(run: RunData, letter: str) -> dict[str, Any]:
    """Return the letter, the name and a short description of a run."""
    config, parts = run.config, run.parts
    facts = facts_line(request_facts(config, run.results) | cost_fact(parts, run.results))
    words = [run.model, f"views: {config.views}"]
    if parts.image_stress.note:
        words.append(f"images: {config.image_stress}")
    if parts.agent.chooses:
        words.append(parts.agent_words)
    return {"letter": letter, "name": run.name, "what": ", ".join(words), "facts": facts}


def _write_changed(
    runs: Sequence[RunData],
    changes: Sequence[AnswerChange],
    options: Sequence[Sequence[str]],
    variables: Mapping[str, Any],
    folder: Path,
    *,
    diagnose: bool,
) -> None:
    """Write one page per changed question, with its dialogue in every run."""
    ids = {change.question.id for change in changes}
    states = [{state.id: state for state in run.dialogues if state.id in ids} for run in runs]
    diagnoses = [
        diagnose_run(run, states=list(run_states.values())) if diagnose else {}
        for run, run_states in zip(runs, states, strict=True)
    ]
    texts = [[f"{row[0]}: {row[n]}" for row in options] for n in range(1, len(runs) + 1)]
    adjacent = neighbours(change.question.id for change in changes)
    with ExitStack() as stack:
        plans = [
            stack.enter_context(
                closing(FloorPlanCache(folder / _scene_set(run), run.scenes, run.dialogues))
            )
            for run in runs
        ]
        for change in track(changes, "writing pages"):
            name = change.question.id
            sides = []
            for run, letter, run_states, run_diagnoses, run_plans, differing in zip(
                runs, LETTERS, states, diagnoses, plans, texts, strict=False
            ):
                q = None
                if (state := run_states.get(name)) is not None:
                    diagnosis = run_diagnoses.get(name)
                    q = question_view(state, run.rows[name], diagnosis, run_plans, run.parts)
                sides.append(_side(run, letter, q, folder) | {"differing": differing})
            turns = (side["q"].state.turns if side["q"] else () for side in sides)
            before, after = adjacent[name]
            write_page(
                folder / page_of(name),
                "compared.html",
                variables,
                root="../",
                change=change,
                sides=sides,
                rows=list(zip_longest(*turns)),
                before=before,
                after=after,
            )


def _side(run: RunData, letter: str, q: QuestionView | None, folder: Path) -> dict[str, Any]:
    """Return the template data of one run for the page of a question; paths are relative to the page."""
    page_folder = folder / "questions"
    return _head(run, letter) | {
        "q": q,
        "stamps": banners(run),
        "page": q and _own_page(run, page_of(q.question.id), page_folder),
        "prefix": f"{letter.lower()}-",  # prefix of HTML ids
        "images": f"{_relative_url(run.path, page_folder)}/",
        "plans": f"../{_scene_set(run)}/",
    }


def _scene_set(run: RunData) -> str:
    """Return the folder name of a run's floor plans. Runs that show the same scenes share it."""
    return run.parts.image_stress.scene_set or f"{run.config.image_stress}-{safe_name(run.name)}"


def _own_page(run: RunData, page: str, folder: Path) -> str | None:
    """Return the relative URL from `folder` to a page of a run's report; None if there is no such page."""
    path = run.path / REPORT / page
    return _relative_url(path, folder) if path.is_file() else None


def _relative_url(path: Path, folder: Path) -> str:
    return quote(Path(os.path.relpath(path, folder)).as_posix())


def names_of(runs: Sequence[RunData], pairs: Pairs) -> list[str]:
    """Return the score, then the types, that both runs of at least one pair have."""
    common_names = {name for pair in pairs for name in pair["differences"]}
    types = {row.type for run in runs for row in run.rows.values()}
    return [*({OFFICIAL_RAW} & common_names), *sort_types(types & common_names)]


def mean_score(results: Any, name: str) -> tuple[float | None, list[float] | None]:
    """Return a run's score in percent, or that of a type, and its confidence interval."""
    if name == OFFICIAL_RAW:
        main = headline(results)
        return main.score, main.bounds
    return results["types"].get(name, {}).get("score"), results["intervals"].get(name)


def plot_differences(runs: Sequence[RunData], pairs: Pairs) -> Plot | None:
    """Plot the paired differences from the first run by type; None if no scores are common to the runs."""
    names = names_of(runs, pairs)
    if not names:
        return None
    reference, letters = LETTERS[0], LETTERS[1 : len(runs)]
    series = []
    for number, (letter, pair) in enumerate(zip(letters, pairs, strict=True), 1):
        entries = [pair["differences"].get(name, {}) for name in names]
        values = [entry.get("difference") for entry in entries]
        intervals = [entry.get("interval") for entry in entries]
        series.append(Dots(f"{letter} − {reference}", *series_style(number), values, intervals))
    svg = draw_dots(
        list(row_names(names).values()),
        series,
        f"difference from {reference} (percentage points)",
        limits=None,
        row_height=0.16 + 0.08 * len(letters),
        columns=6,
    )
    return Plot(
        "differences",
        f"Paired differences from {reference}",
        f"One mark per run at its difference from {reference} with its 95 % confidence interval; values above zero are better.",
        svg,
        f"Over the questions that both runs have scored; values above zero are better than {reference}. {interval_note()}",
    )


def _table(runs: Sequence[RunData], pairs: Pairs) -> list[dict[str, Any]]:
    """Return one row per aggregate score and type: the score of each run, and its difference from the first."""
    return [
        {
            "name": label,
            "mean": name == OFFICIAL_RAW,
            "scores": [
                (figure(score), "–" if score is None else interval_cell(bounds))
                for score, bounds in (mean_score(run.results, name) for run in runs)
            ],
            "differences": [_difference(pair["differences"].get(name)) for pair in pairs],
        }
        for name, label in row_names(names_of(runs, pairs)).items()
    ]


def _difference(entry: Any) -> dict[str, Any] | None:
    if entry is None or entry["difference"] is None:
        return None
    return {
        "value": format_signed(entry["difference"]),
        "interval": interval_cell(entry["interval"]),
        "p": probability(entry["p"]),
        "p_holm": probability(entry["p_holm"]),
        "side": direction(entry),
    }


def _options(pairs: Pairs) -> list[list[str]]:
    """Return the facts and options in which any two runs differ: the name, then its value in each run."""
    options_of_pairs = [differences(pair) for pair in pairs]
    rows = []
    for name in dict.fromkeys(name for options in options_of_pairs for name in options):
        value = next(options[name][0] for options in options_of_pairs if name in options)
        # a pair without the option has the same value in both runs
        values = [options.get(name, (value, value))[1] for options in options_of_pairs]
        rows.append([name, value, *values])
    return rows


def _copies(pairs: Pairs, letters: str) -> list[tuple[str, str, str]]:
    """Return (name, title, text) of the table of differences in every format to copy."""
    rows = table_cells(pairs, letters)
    return [(name, title, write(rows)) for name, (title, write) in FORMATS.items()]


def _tests(pairs: Pairs) -> list[tuple[str, str, int, int, int, str, str]]:
    """Return the rows of McNemar's tests: pair, type, n, gained, lost, p, corrected p."""
    return [
        (
            f"{letter} vs. {LETTERS[0]}",
            "all multiple-choice" if name == "choices" else type_label(name),
            test["n"],
            test["only_b"],
            test["only_a"],
            probability(test["p"]),
            probability(test["p_holm"]),
        )
        for letter, pair in zip(LETTERS[1:], pairs, strict=False)
        for name, test in pair["mcnemar"].items()
    ]


def _figures(pairs: Pairs) -> dict[str, list[tuple[str, str, list[str]]]]:
    """Return the tables of further figures by title: one row per figure and later run, with label, pair, and cells starting
    with n.
    """
    tables = {
        title: [
            (label, f"{letter} − {LETTERS[0]}", [f"{entry['n']:,}", *difference_cells(entry)])
            for name, label in labels.items()
            for letter, pair in zip(LETTERS[1:], pairs, strict=False)
            if (entry := pair.get(key, {}).get(name)) is not None
        ]
        for key, (title, labels) in compared_figures().items()
    }
    return {title: rows for title, rows in tables.items() if rows}


def _rows(changes: Sequence[AnswerChange]) -> list[dict[str, Any]]:
    """Return the data that the filter script uses; type, scene and ground truth come from the first run."""
    return [
        {
            **{name: getattr(change.first, name) for name in ("type", "dataset", "scene", "truth")},
            "question_id": change.question.id,
            "page": safe_name(change.question.id),
            "outcome": change.change,
            "answer": ", ".join(str(row.answer) for row in change.rows if row is not None),
            "text": change.question.text,
        }
        for change in changes
    ]
