"""The commands that score: a run anew, a file of predictions, runs against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import click

from render_agent.analysis.predictions import FORM, read_predictions, score_predictions
from render_agent.beliefs.belief_summary import WORDS
from render_agent.config import fixed_options
from render_agent.errors import QuestionsError, UsageError
from render_agent.extras import require
from render_agent.questions.vsibench import load_vsibench
from render_agent.runs.log.folder import RunFolder, RunLog, find_run
from render_agent.runs.log.reader import compared_beliefs, results_of
from render_agent.runs.log.results import table
from render_agent.score.comparison import Side, compare_alike, correct, differing, ladder
from render_agent.score.intervals import add_holm
from render_agent.score.summary import OFFICIAL
from render_agent.score.tables import (
    changed_table,
    compared_beliefs_table,
    comparison_table,
    ladder_table,
    score_table,
    score_tables,
)
from render_agent.text.console import plain_console
from render_agent.text.sanitize import json_text


def rescore(output: Path, which: str, parser: str, *, as_json: bool) -> None:
    """Compute a run's results anew from its log and print them.

    Those of a run that has come to its end, by the official parser, take the place of its
    `results.json`; those of another parser lie beside it as `results.PARSER.json`. An unfinished
    run's are printed only.
    """
    folder = find_run(output, which)
    results = results_of(folder, parser)
    if folder.finished:
        with closing(RunLog(folder)) as log:
            if parser == OFFICIAL:
                log.write_results(results, table(results["questions"]))
            else:
                log.write_results_of(parser, results)
    if as_json:
        click.echo(json_text(results))
        return
    console = plain_console()
    console.print(score_tables(results))
    console.print(f"the run: {folder.path}", soft_wrap=True)


def score_file(predictions: Path, questions: str | None, parser: str, *, as_json: bool) -> None:
    """Score a file of predictions and print the figures. QuestionsError where there is no such file."""
    if not predictions.is_file():
        raise QuestionsError(
            f"there is no file of predictions at {predictions}: write one of lines such as {FORM}"
        )
    answerable = load_vsibench(questions)
    results = score_predictions(answerable, read_predictions(predictions, answerable), parser)
    if as_json:
        click.echo(json_text(results))
    else:
        plain_console().print(score_table(results))


def compare_runs(
    output: Path,
    names: Sequence[str],
    *,
    anyway: bool,
    as_json: bool,
    page: Path | None = None,
    diagnose: bool = True,
) -> None:
    """Compare every run with the first and print what differs; write it as pages where wanted.

    page: the folder of the pages; one without a name is beside the first run. diagnose: whether the pages
    show what the cameras saw. UsageError where runs are not comparable, or page is one of them.
    """
    if page is not None and page != Path() and _is_run(output, page):
        raise UsageError(
            f"--page {page} is a run, not a folder for pages: put --page last, or give it a folder"
        )
    if len(names) < 2:
        raise UsageError("compare needs at least two runs: render-agent compare RUN_A RUN_B")
    if page is not None:
        require("compare --page", "matplotlib")
    folders = [find_run(output, name) for name in names]
    if repeated := [f.name for f in folders[1:] if f.path.resolve() == folders[0].path.resolve()]:
        raise UsageError(f"{repeated[0]} would be compared with itself: name another run")
    alike = len({folder.name for folder in folders}) < len(folders)
    sides = [_side(folder, by_path=alike) for folder in folders]
    first, *others = sides
    steps = ladder(sides)
    pairs = [_pair(first, other, anyway=anyway) for other in others]
    correct(pairs)
    for comparison, folder in zip(pairs, folders[1:], strict=True):
        if beliefs := compared_beliefs(folders[0], folder):
            comparison["beliefs"] = beliefs
    add_holm([entry for comparison in pairs for entry in comparison.get("beliefs", {}).values()])
    if page is not None:
        place = _write_pages(folders, pairs, steps, page, diagnose=diagnose)
        click.echo(str(place), err=as_json)
    if as_json:
        rungs = {} if steps is None else {"ladder": steps}
        printed = pairs[0] if len(pairs) == 1 else {"comparisons": pairs}
        click.echo(json_text({**printed, **rungs}))
        return
    console = plain_console()
    for comparison in pairs:
        for reason in comparison["warnings"]:
            console.print(f"NOT COMPARABLE: {reason}", soft_wrap=True)
        console.print(comparison_table(comparison))
        changed = comparison["changed"]
        console.print(changed_table(comparison) if changed else "no question changed sides")
        if "beliefs" in comparison:
            console.print(compared_beliefs_table(comparison, WORDS))
    if steps is not None:
        console.print(ladder_table(steps))


def _is_run(output: Path, place: Path) -> bool:
    return place.name == "recent" or any(
        (path / "config.json").is_file() for path in (output / place, place)
    )


def _pair(first: Side, second: Side, *, anyway: bool) -> dict[str, Any]:
    """Compare one run with another. UsageError where they are not comparable."""
    sides = (("a", first.results), ("b", second.results))
    return {
        **compare_alike(first, second, anyway=anyway, way_out="--anyway"),
        "options": differing(first, second),
        "work": {side: results["totals"]["per_question"] for side, results in sides},
        "notes": {side: results["notes"] for side, results in sides},
    }


def _write_pages(
    folders: Sequence[RunFolder],
    pairs: Sequence[Mapping[str, Any]],
    steps: Mapping[str, Any] | None,
    page: Path,
    *,
    diagnose: bool,
) -> Path:
    """Write the comparison as pages and return their index."""
    from render_agent.analysis.report.comparison.comparison_page import (
        comparison_folder,
        write_comparison,
    )
    from render_agent.analysis.report.comparison.runs import Comparison, compared_runs
    from render_agent.analysis.report.data import read_run

    reports = [read_run(folder, diagnose=diagnose) for folder in folders]
    runs = compared_runs(reports, [(), *(pair["warnings"] for pair in pairs)])
    unnamed = page == Path()
    place = comparison_folder([folder.path for folder in folders]) if unnamed else page
    return write_comparison(Comparison(runs, pairs, steps), place)


def _side(folder: RunFolder, *, by_path: bool) -> Side:
    config = folder.config
    return Side(
        str(folder.path) if by_path else folder.name,
        results_of(folder),
        {"--subset": config.subset},
        fixed_options(config.to_json()),
    )
