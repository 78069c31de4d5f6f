"""The cells of a sweep, read from its YAML file, and the loop over them.

Each is a run with its own options, and is found on disk by the fingerprint of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct
from rich.console import Console

from render_agent.cli.run import run_with_progress
from render_agent.engines.make_engine import describe_engine, engine_traits
from render_agent.errors import RenderAgentError, SetupError, UsageError, os_errors
from render_agent.options import CHANGEABLE, RunConfig, flag_of, parse_options
from render_agent.report.comparison.runs_table import RunGroup, is_complete
from render_agent.report.sentences.facts import option_value
from render_agent.runs.build import build
from render_agent.runs.read import RunData, list_runs
from render_agent.runs.runner import check, resume_run, start_run
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


def find_cells(sweep: Sweep) -> dict[str, RunData]:
    """Return the run of every started cell by label, preferring complete and recent runs.

    Folders that are not readable runs are ignored.
    """
    by_fingerprint: dict[str, RunData] = {}
    for path in list_runs(sweep.folder):
        try:
            run = RunData(path)
            fingerprint = run.config.fingerprint
        except RenderAgentError:
            continue
        other = by_fingerprint.get(fingerprint)
        if other is None or is_complete(run) >= is_complete(other):
            by_fingerprint[fingerprint] = run
    return {
        cell.label: by_fingerprint[cell.config.fingerprint]
        for cell in sweep.cells
        if cell.config.fingerprint in by_fingerprint
    }


def check_cells(sweep: Sweep, started: Mapping[str, RunData], *, run_code: bool = True) -> None:
    """Check that every cell that has not started can start, without loading a model."""
    for cell in sweep.cells:
        if cell.label in started:
            continue
        code = engine_traits(cell.config.engine).code_file(cell.config)
        describe = describe_engine if run_code or not code else _check_file
        try:
            check(build(cell.config), describe)
        except SetupError as error:
            raise type(error)(f"{cell.label}: {error}") from error


def run_cells(
    sweep: Sweep, console: Console, resume_command: str, *, verbose: bool
) -> dict[str, str]:
    """Complete every cell; return the errors of cells that stopped, by label."""
    errors = {}
    for place, cell in enumerate(sweep.cells, start=1):
        run = find_cells(sweep).get(cell.label)  # another process may have started it
        title = f"cell {place} of {len(sweep.cells)}: {cell.label}"
        if run is not None and is_complete(run):
            console.print(f"{title} is complete: {run.path}", soft_wrap=True)
            continue
        console.print(title, soft_wrap=True)
        config = replace(cell.config, quiet=console.quiet, verbose=verbose)
        changes = {name: getattr(config, name) for name in sorted(CHANGEABLE - {"output"})}
        try:
            run_with_progress(
                start_run(config) if run is None else resume_run(run, changes, allow_code=True),
                resume_command=resume_command,
            )
        except RenderAgentError as error:  # continue with the other cells
            errors[cell.label] = str(error)
            console.print(f"{title}: {error}", soft_wrap=True)
    return errors


def _check_file(config: RunConfig) -> dict[str, Any]:
    """Check that the file of a policy exists, without executing it. Raises SetupError if it is missing."""
    if not Path(config.model or "").is_file():
        raise SetupError(f"file not found: {config.model}")
    return {}
