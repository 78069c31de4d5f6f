"""Run folders of which one file is anybody's, read by whatever reads runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzz_seeds import RUN, RUNS

OTHER = "20260101T000000_batched"
"""A run over the same questions."""

FILES = {
    "config.json": "json",
    "questions.jsonl": "jsonl",
    "turns.jsonl": "jsonl",
    "results.json": "json",
}
"""The files of a run that are read again, and the form of each."""

QUESTIONS = ("0", "../odd")
"""The ids of the questions."""

HERE = b"{HERE}"
"""Stands for the folder in what is kept."""


def seeds(name: str) -> tuple[bytes, ...]:
    """Return the files of this name in the runs that are kept."""
    runs = [RUNS / "runs" / RUN, *sorted((RUNS / "runs").iterdir())]
    return tuple(dict.fromkeys((run / name).read_bytes() for run in runs if (run / name).exists()))


def prepare(folder: Path) -> None:
    """Put the runs that are kept into the folder, twice: what is read, and what is put back."""
    for place in ("runs", "whole"):
        shutil.copytree(RUNS / "runs", folder / place)
        for file in (folder / place).rglob("*.json*"):
            file.write_bytes(file.read_bytes().replace(HERE, str(folder).encode()))
    shutil.copy(RUNS / "room.ply", folder)


def reader(name: str) -> Callable[[bytes, Path], None]:
    """Return what reads a run whose file of this name is the input."""

    def run(data: bytes, folder: Path) -> None:
        place = folder / "runs" / RUN
        (place / name).write_bytes(data.replace(HERE, str(folder).encode()))
        try:
            read(place, folder)
        finally:
            for file in FILES:
                shutil.copy(folder / "whole" / RUN / file, place)

    return run


def read(place: Path, folder: Path) -> None:
    """Read a run in every way; the first error of the package is raised when all was tried."""
    from render_agent.errors import RenderAgentError

    first: RenderAgentError | None = None
    for way in ways(place, folder):
        try:
            way()
        except RenderAgentError as error:
            first = first or error
    if first is not None:
        raise first


def ways(place: Path, folder: Path) -> Iterator[Callable[[], object]]:
    """Give what reads a run, one way after the other."""
    from render_agent.analysis.export.selection import QuestionFilter, select_runs
    from render_agent.analysis.export.writers import ExportOptions, export
    from render_agent.analysis.live.run import LiveRun
    from render_agent.analysis.related_runs import siblings
    from render_agent.analysis.report.data import read_run
    from render_agent.cli.commands import runs as commands
    from render_agent.cli.commands import score as scoring
    from render_agent.runs.log.folder import RunFolder
    from render_agent.runs.log.reader import results_of
    from render_agent.runs.runner import resume_run

    output = place.parent

    def compared() -> None:
        for names in ((RUN, OTHER), (OTHER, RUN)):
            scoring.compare_runs(output, names, anyway=True, as_json=True)

    def exported() -> None:
        runs = select_runs([RunFolder(place)], QuestionFilter())
        for form in ("messages", "pairs", "csv", "turns-csv"):
            export(runs, form, folder / "exported", ExportOptions(force=True))

    def gone_on() -> None:
        resume_run(RunFolder(place), {}).close()

    def followed() -> None:
        json.dumps(LiveRun(RunFolder(place), folder / "pages").standing(), allow_nan=False)

    yield lambda: commands.list_them(output, as_json=False)
    yield lambda: commands.show(output, RUN, None, as_json=False)
    for question in QUESTIONS:
        yield lambda question=question: commands.show(output, RUN, question, as_json=False)
    yield lambda: json.dumps(results_of(RunFolder(place)), allow_nan=False)
    yield lambda: results_of(RunFolder(place), "vlmevalkit")
    yield lambda: siblings(RunFolder(output / OTHER))
    yield compared
    yield exported
    yield gone_on
    yield lambda: read_run(RunFolder(place), diagnose=False)
    yield followed
