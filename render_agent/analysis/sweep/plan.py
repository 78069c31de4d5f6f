"""The plan of a sweep, read from its file: the cells, each the options of a run and what tells it apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from render_agent.config import OPTIONS, RunConfig
from render_agent.config.file import MOST_BYTES
from render_agent.config.flags import checked
from render_agent.errors import UsageError, os_errors
from render_agent.text.reasons import reason_of, short_repr, shortened
from render_agent.text.safe_parse import Each, convert, line_of, parse_yaml, read_bounded

COSTS = ("renders", "tokens")
"""In what a run may be meant to equal the baseline: pictures drawn, or tokens read and written."""

ELSEWHERE = {
    **dict.fromkeys(
        ("batch", "ply", "question", "option"),
        "a sweep runs benchmarks; one question of one scan is asked without it",
    ),
    "repeat": "write seed: [0, 1, 2] under grid",
    "shard": "the cells of a sweep are whole runs",
    **dict.fromkeys(("output", "json", "quiet", "verbose"), "give it on the command line"),
}
"""Options that a file may not set, and why."""


Values = Annotated[list[Any], Meta(min_length=1)]
Options = dict[Any, Any]


class SweepFile(Struct, frozen=True, forbid_unknown_fields=True):
    """What a file may hold; options are read by `checked`."""

    name: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,79}\Z")] | None = None
    options: Options | None = None
    grid: Each[str, Values] | None = None
    runs: list[Options | None] | None = None
    seeds: Values | None = None
    baseline: Any = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a sweep: its label, the options that vary as they were written, and all options.

    row: what its row of the table is called; runs that differ in their seeds alone share one.
    labelled: whether that was written; otherwise it is made of those options. equal: in which COSTS it is meant to
    equal the baseline.
    """

    label: str
    varied: Mapping[str, str]
    config: RunConfig
    row: str
    labelled: bool = False
    equal: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep: its name, its cells in order, and the first cell of the row that others are compared with."""

    name: str
    cells: tuple[Cell, ...]
    baseline: Cell

    @property
    def rows(self) -> list[list[Cell]]:
        """The cells of every row of the table, in order."""
        rows: dict[str, list[Cell]] = {}
        for cell in self.cells:
            rows.setdefault(cell.row, []).append(cell)
        return list(rows.values())


@dataclass(frozen=True, slots=True)
class Entry:
    """A row as the file has it: what it is called, its options, and in which COSTS it equals the baseline."""

    row: str
    options: Mapping[str, Any]
    equal: tuple[str, ...] = ()


def read_sweep(file: Path, typed: Mapping[str, Any], output: Path) -> Sweep:
    """Return the sweep that a YAML file asks for; its runs lie in `output`/sweep_NAME.

    typed: options of the command line, which beat those of the file. UsageError, one sentence with the
    file and the key, where the file cannot be read, an option cannot have a value, or two cells would
    be the same run.
    """
    plan = _read(file)
    try:
        return _sweep(plan, plan.name or file.stem, typed, output)
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error


def _sweep(plan: SweepFile, name: str, typed: Mapping[str, Any], output: Path) -> Sweep:
    common = _options(plan.options or {})
    entries = [*_grid(plan.grid or {}), *_runs(plan.runs or [])]
    if not entries:
        raise UsageError("there is no cell: give a grid of options, or a list of runs")
    seeds = _seeds(plan.seeds, [common, *(entry.options for entry in entries)])
    cells = []
    for entry in entries:
        for seed in seeds:
            own = {**entry.options, **seed}
            if taken := sorted(own.keys() & typed.keys()):
                flag = "--" + taken[0].replace("_", "-")
                raise UsageError(
                    f"{flag} is set here ({shortened(entry.row, 200)}): leave it out of the command line"
                )
            cells.append(_cell(entry, seed, {**common, **own, **typed}, output / f"sweep_{name}"))
    _refuse_twins(cells)
    return Sweep(name, tuple(cells), _baseline(plan.baseline, cells))


def _read(file: Path) -> SweepFile:
    try:
        with os_errors(UsageError, f"read {file}"):
            data = parse_yaml(read_bounded(file, MOST_BYTES).decode())
    except ValueError as error:
        raise UsageError(f"{file} is no YAML{line_of(error)}") from error
    try:
        sweep: SweepFile = convert({} if data is None else data, SweepFile)
    except ValueError as error:
        keys = ", ".join(SweepFile.__struct_fields__)
        raise UsageError(f"{file}: {error}; a sweep has {keys}") from error
    return sweep


def _seeds(seeds: Values | None, options: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the seed of every run of a row as an option, nothing where the file has no seeds."""
    if seeds is None:
        return [{}]
    if any("seed" in entry for entry in options):
        raise UsageError("seed stands beside seeds: give one of them")
    return [_options({"seed": seed}, "seeds") for seed in seeds]


def _grid(grid: Mapping[str, Values]) -> Iterator[Entry]:
    """Give every combination, the last option changing fastest."""
    axes = [[_options({key: value}, "grid") for value in grid[key]] for key in grid]
    for parts in product(*axes) if axes else ():
        options = {name: value for part in parts for name, value in part.items()}
        yield Entry(_label(options), options)


def _runs(runs: Sequence[Options | None]) -> Iterator[Entry]:
    """Give every run that is listed."""
    for number, entry in enumerate(runs, start=1):
        where = f"runs, entry {number}"
        options = dict(entry or {})
        label = options.pop("label", None)
        if label is not None and not isinstance(label, str | int | float):
            raise UsageError(f"{where}: label must be a text")
        equal = _equal(options.pop("equal", None), where)
        own = _options(options, where)
        if not own and label is None:
            raise UsageError(f"{where}: there is neither a label nor an option")
        yield Entry(str(label) if label is not None else _label(own), own, equal)


def _equal(equal: Any, where: str) -> tuple[str, ...]:
    """Return in which COSTS a run is meant to equal the baseline."""
    if equal is None:
        return ()
    names = equal if isinstance(equal, list) else [equal]
    if not all(name in COSTS for name in names):
        raise UsageError(f"{where}: equal must be {' or '.join(COSTS)}, or a list of both")
    return tuple(names)


def _options(options: Mapping[Any, Any], where: str = "options") -> dict[str, Any]:
    """Return options as RunConfig takes them. UsageError where one is unknown or out of place."""
    named = {str(key).replace("-", "_"): value for key, value in options.items()}
    for name in named:
        if name in ELSEWHERE:
            raise UsageError(f"{where}: {name} has no place here: {ELSEWHERE[name]}")
    try:
        return checked(named)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        # a value of a form that no option has, such as a mapping
        raise UsageError(f"{where}: {short_repr(named)} holds no value of an option") from error


def _label(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_as_typed(name, value)}" for name, value in options.items())


def _as_typed(name: str, value: Any) -> str:
    """Return the value of an option as it would be typed."""
    separator = OPTIONS[name].metadata.get("separator", ",")
    return separator.join(map(str, value)) if isinstance(value, tuple) else str(value)


def _cell(
    entry: Entry,
    seed: Mapping[str, Any],
    options: Mapping[str, Any],
    folder: Path,
) -> Cell:
    label = ", ".join([entry.row, *([_label(seed)] if seed else [])])
    try:
        config = RunConfig(**{**options, "batch": True, "output": str(folder)}).absolute()
    except UsageError as error:
        raise UsageError(f"{shortened(label, 200)}: {error}") from error
    varied = {name: _as_typed(name, value) for name, value in entry.options.items()}
    labelled = entry.row != _label(entry.options)
    return Cell(label, varied, config, entry.row, labelled, entry.equal)


def _refuse_twins(cells: Sequence[Cell]) -> None:
    runs: dict[str, Cell] = {}
    labels: dict[str, Cell] = {}
    for cell in cells:
        if (twin := runs.setdefault(cell.config.fingerprint, cell)) is not cell:
            raise UsageError(
                f"{shortened(twin.label, 200)} and {shortened(cell.label, 200)} are the same run: they differ in nothing that"
                " changes results (for speed, see render-agent bench)"
            )
        if labels.setdefault(cell.label, cell) is not cell:
            raise UsageError(f"two cells are called {short_repr(cell.label, 200)}")


def _baseline(baseline: Any, cells: Sequence[Cell]) -> Cell:
    """Return the cell that `baseline` names: by the label of its row, or by options that only one row has.

    Of several, the one that varies in nothing else.
    """
    if baseline is None:
        return cells[0]
    cells = list({cell.row: cell for cell in reversed(cells)}.values())[::-1]  # one a row
    if isinstance(baseline, dict):
        wanted = _options(baseline, "baseline")
        matching = [
            cell
            for cell in cells
            if all(getattr(cell.config, name) == value for name, value in wanted.items())
        ]
        matching = [cell for cell in matching if cell.varied.keys() <= wanted.keys()] or matching
    else:
        matching = [cell for cell in cells if cell.row == str(baseline)]
    if len(matching) == 1:
        return matching[0]
    labels = reason_of("; ".join(cell.row for cell in cells))
    raise UsageError(f"baseline {short_repr(baseline)} is {len(matching)} of the cells: {labels}")
