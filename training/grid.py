"""The grid of runs that the small model is measured by: planned, run, found again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from render_agent.analysis.sweep.grid import check_cells, find_cells, is_complete, run_cell
from render_agent.analysis.sweep.plan import Cell, Sweep
from render_agent.cli.commands.runs import watch
from render_agent.config import RunConfig
from render_agent.config.choice import sha256
from render_agent.engines.checkpoint.locate import find_model
from render_agent.errors import SetupError
from render_agent.runs.log.folder import RunFolder

FREE, BLIND, ONE_VIEW, FOUR_VIEWS, MAP = "free", "blind", "one view", "four views", "map"
RANDOM_WALK, BLACK, MIRRORED, NO_GUIDE = "random walk", "black", "mirrored", "no guide"
FREQUENCY, RANDOM = "frequency", "random"

ARMS: Mapping[str, Mapping[str, Any]] = {
    FREE: {"views": "free"},
    BLIND: {"views": "none"},
    ONE_VIEW: {"views": "start"},
    FOUR_VIEWS: {"views": "four"},
    MAP: {"views": "top"},
    RANDOM_WALK: {"views": "random-walk"},
    BLACK: {"pictures": "black"},
    MIRRORED: {"pictures": "mirrored"},
    NO_GUIDE: {"no_guide": True},
    FREQUENCY: {"engine": "scripted", "model": "frequency", "views": "none"},
    RANDOM: {"engine": "scripted", "model": "random", "views": "none"},
}
"""The runs about each file of rooms, by what they are called: the options in which each differs."""

SETTINGS: Mapping[str, Any] = {"image_size": (320, 240)}
"""What all of them share."""

OF_MODELS: Mapping[str, Any] = {"dtype": "float32"}
"""What those share that a model answers, and not a rule."""

UNREAD = ("README.md", "training.json", "curves.svg")
"""Files beside the weights that no run reads."""


@dataclass(frozen=True, slots=True)
class Grid:
    """What is measured, and on what.

    model: a name or a directory, or a policy of the scripted engine. rooms: files of questions. runs: where
    the run folders lie. limit: at most so many questions of each file, drawn from all its scenes. options:
    more options of every run of the model, such as its batch size.
    """

    engine: str
    model: str
    rooms: tuple[Path, ...]
    runs: Path
    limit: int | None
    options: Mapping[str, Any]

    def sweeps(self) -> dict[str, Sweep]:
        """Return the runs about every file of rooms, by what its folder is called.

        Runs of other weights or other questions lie elsewhere, so that none is taken for one of these.
        SetupError where the model or the questions are not at hand, or two folders are called alike.
        """
        place = self.runs / self._model_place()
        found: dict[str, Sweep] = {}
        for file in self.rooms:
            name = file.resolve().parent.name
            if name in found:
                raise SetupError(f"two folders of rooms are called {name}: rename one")
            found[name] = self._sweep(file, place / f"{name}-{sha256(file)[:8]}")
        return found

    def _model_place(self) -> str:
        if self.engine != "scripted":
            return digest(find_model(self.model).folder)[:12]
        replies = Path(self.model)
        return sha256(replies)[:12] if replies.is_file() else f"scripted-{self.model}"

    def _sweep(self, file: Path, place: Path) -> Sweep:
        given: dict[str, Any] = {
            "batch": True,
            "benchmark": str(file),
            "engine": self.engine,
            "model": self.model,
            "limit": self.limit,
            "shuffle": self.limit is not None,
            "output": str(place),
            **SETTINGS,
            **self.options,
        }
        cells = tuple(
            Cell(label, RunConfig(**_fitting({**given, **options})).absolute(), label)
            for label, options in ARMS.items()
        )
        return Sweep(file.parent.name, cells, cells[0].row)


def _fitting(options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, **({} if options["engine"] == "scripted" else OF_MODELS)}


def digest(folder: Path) -> str:
    """Return the SHA-256 of all files in a model's directory that a run may read, by name and content."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in UNREAD)
    told = [f"{file.name} {sha256(file)}" for file in files]
    return hashlib.sha256("\n".join(told).encode()).hexdigest()


def finished(sweep: Sweep, again: str, say: Callable[[str], None]) -> dict[str, RunFolder]:
    """Take every run of a sweep to its end where it is not there yet; return them by label.

    A run that was cut off goes on, and its failed questions are tried once more. again: the line that goes
    on with it. RenderAgentError where one has to stop; what is done stays done.
    """
    begun = find_cells(sweep)
    check_cells(sweep, begun)
    for cell in sweep.cells:
        folder = begun.get(cell.label)
        if folder is None or not is_complete(folder):
            say(f"{sweep.name}, {cell.label}")
            run_cell(cell, folder, lambda run: watch(run, again=again))
    return find_cells(sweep)


def complete(sweep: Sweep) -> dict[str, RunFolder]:
    """Return the finished runs of a sweep by label."""
    return {label: folder for label, folder in find_cells(sweep).items() if is_complete(folder)}
