"""Plan of a sweep, read from its YAML file: cells, each a run with its own options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from render_agent.errors import UsageError, os_errors
from render_agent.options import RunConfig, flag_of, parse_options
from render_agent.report.comparison.runs_table import RunGroup
from render_agent.report.sentences.facts import option_value
from render_agent.runs.build import build
from render_agent.runs.read import RunData
from render_agent.util.reasons import reason_of, short_repr, truncate
from render_agent.util.safe_parse import convert, parse_yaml, read_text

MAX_FILE_BYTES = 1 << 20

# options that a sweep file must not set
NOT_IN_FILE = frozenset(
    {"batch", "ply", "question", "option", "shard", "output", "json", "quiet", "verbose"}
)

Values = Annotated[list[Any], Meta(min_length=1)]


class SweepFile(Struct, frozen=True, forbid_unknown_fields=True):
    """Keys of a sweep file. The options in it are parsed by `parse_options`."""

    name: Annotated[str, Meta(pattern=r"\A[A-Za-z0-9][A-Za-z0-9_.-]{0,79}\Z")] | None = None
    options: dict[str, Any] = {}
    grid: dict[str, Values] = {}
    runs: list[dict[str, Any]] = []
    seeds: Values | None = None
    baseline: str | dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SweepRun:
    label: str
    config: RunConfig
    row: str
    """Label of its row in the table; the same for all seeds."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The options that its row sets."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """A sweep with its cells in order."""

    name: str
    cells: tuple[SweepRun, ...]
    baseline: str
    """Label of the row that the others are compared with."""

    @property
    def folder(self) -> Path:
        return Path(self.cells[0].config.output)

    @property
    def title(self) -> str:
        partial = " (PARTIAL)" if any(cell.config.partial for cell in self.cells) else ""
        return f"Sweep {self.name}{partial}"

    def groups(self, started: Mapping[str, RunData]) -> list[RunGroup]:
        """Return the rows of the table, given the runs of the cells by label."""
        names = {name: None for cell in self.cells for name in cell.options}
        options = {
            cell.row: {name: option_value(name, getattr(cell.config, name)) for name in names}
            for cell in self.cells
        }
        varying = [name for name in names if len({row[name] for row in options.values()}) > 1]
        groups = []
        for label in options:
            cells = [cell for cell in self.cells if cell.row == label]
            runs = [started[cell.label] for cell in cells if cell.label in started]
            readable = [run for run in runs if run.has_questions]
            own_options = {name: options[label][name] for name in varying}
            groups.append(RunGroup(label, readable, len(cells), own_options))
        return groups


def read_sweep(file: Path, typed: Mapping[str, Any], output: Path) -> Sweep:
    plan = _read(file)
    try:
        cells = tuple(_cells(plan, typed, output / f"sweep_{plan.name or file.stem}"))
        return Sweep(plan.name or file.stem, cells, _baseline(plan.baseline, cells))
    except UsageError as error:
        raise UsageError(f"{file}: {error}") from error


def _read(file: Path) -> SweepFile:
    if not file.is_file():
        raise UsageError(f"file not found: {file}")
    try:
        with os_errors(UsageError, f"read {file}"):
            data = parse_yaml(read_text(file, MAX_FILE_BYTES))
    except ValueError as error:
        raise UsageError(f"{file}: invalid YAML: {reason_of(error)}") from error
    try:
        sweep: SweepFile = convert({} if data is None else data, SweepFile)
    except ValueError as error:
        keys = ", ".join(SweepFile.__struct_fields__)
        raise UsageError(f"{file}: {error}. Valid keys: {keys}") from error
    return sweep


def _cells(plan: SweepFile, typed: Mapping[str, Any], output: Path) -> Iterator[SweepRun]:
    common = _options(plan.options, "options")
    seeds = [_options({"seed": seed}, "seeds") for seed in plan.seeds or ()]
    labels: set[str] = set()
    runs: dict[str, str] = {}
    for row, options in [*_grid(plan.grid), *_listed(plan.runs)]:
        if seeds and "seed" in {**common, **options}:
            raise UsageError("seed and seeds are both set. Use only one of them.")
        for seed in seeds or [{}]:
            cell_options = {**options, **seed}
            if conflicts := sorted(cell_options.keys() & typed.keys()):
                raise UsageError(f"{flag_of(conflicts[0])} is set in the file ({truncate(row, 200)}). Omit it on the command line.")  # fmt: skip
            label = ", ".join([row, *([_label(seed)] if seed else [])])
            config = _config({**common, **cell_options, **typed}, label, output)
            if duplicate := runs.get(config.fingerprint):
                raise UsageError(f"{truncate(duplicate, 200)} and {truncate(label, 200)} are the same run: they differ in no option that affects results")  # fmt: skip
            if label in labels:
                raise UsageError(f"duplicate label {short_repr(label, 200)}")
            labels.add(label)
            runs[config.fingerprint] = label
            yield SweepRun(label, config, row, options)


def _grid(grid: Mapping[str, list[Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield label and options of every combination; the last option varies fastest."""
    axes = [[_options({key: value}, "grid") for value in values] for key, values in grid.items()]
    for parts in product(*axes) if axes else ():
        options = {name: value for part in parts for name, value in part.items()}
        yield _label(options), options


def _listed(runs: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield label and options of every listed run."""
    for number, entry in enumerate(runs, start=1):
        label = entry.get("label")
        options = _options(
            {key: value for key, value in entry.items() if key != "label"}, f"runs, entry {number}"
        )
        if not options and label is None:
            raise UsageError(f"runs, entry {number}: empty. Add a label or an option.")
        yield _label(options) if label is None else str(label), options


def _options(options: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Parse options for RunConfig. Raises UsageError if one is unknown or not allowed in a sweep file."""
    by_name = {str(key).replace("-", "_"): value for key, value in options.items()}
    if forbidden := sorted(by_name.keys() & NOT_IN_FILE):
        raise UsageError(f"{where}: {forbidden[0]} cannot be set in a sweep file")
    try:
        return parse_options(by_name)
    except UsageError as error:
        raise UsageError(f"{where}: {short_repr(by_name)}: {error}") from error


def _config(options: Mapping[str, Any], label: str, output: Path) -> RunConfig:
    try:
        config = RunConfig(**{**options, "batch": True, "output": str(output)}).absolute()
        return build(config).config
    except UsageError as error:
        raise UsageError(f"{truncate(label, 200)}: {error}") from error


def _label(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={option_value(name, value)}" for name, value in options.items())


def _baseline(baseline: str | dict[str, Any] | None, cells: tuple[SweepRun, ...]) -> str:
    """Return the first row with the label or the options of `baseline`; the first row if it is None."""
    options = _options(baseline, "baseline") if isinstance(baseline, dict) else {}
    for cell in cells:
        has_options = all(getattr(cell.config, name) == value for name, value in options.items())
        if has_options and (not isinstance(baseline, str) or cell.row == baseline):
            return cell.row
    if not cells:
        raise UsageError("the sweep has no runs. Set grid or runs.")
    raise UsageError(f"no run matches the baseline {short_repr(baseline)}")
