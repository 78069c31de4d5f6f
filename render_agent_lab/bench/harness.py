"""Shared by all benchmarks: machine description, Markdown tables, and writing the result page."""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

PACKAGES = ("numpy", "numba", "torch", "transformers")

OUTPUT = click.option(
    "--output", type=click.Path(path_type=Path), help="Write the page to this file (.md)."
)


def machine(*packages: str) -> str:
    """Return a line with processor, system, date, load, and package versions."""
    versions = []
    for package in packages or PACKAGES:
        try:
            versions.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return (
        f"{processor()}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()},"
        f" {', '.join(versions)}; {time.strftime('%Y-%m-%d')}; load {os.getloadavg()[0]:.1f}"
    )


def processor() -> str:
    """Return the name of the processor, or its architecture if unknown."""
    details = Path("/proc/cpuinfo")
    lines = details.read_text("utf-8").splitlines() if details.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Return the lines of a Markdown table. None becomes a dash; numeric columns are right-aligned."""
    cells = [["–" if value is None else str(value) for value in row] for row in rows]
    right = [all(row[i][:1] in "–+-<≥0123456789" for row in cells) for i in range(len(head))]
    rule = ["--:" if number else "---" for number in right]
    return [f"| {' | '.join(row)} |" for row in (list(head), rule, *cells)]


def interval(ends: Sequence[float] | None, form: str = ".1f") -> str:
    """Format an interval."""
    return "–" if ends is None else f"{ends[0]:{form}} … {ends[1]:{form}}"


def publish(output: Path | None, title: str, lines: Iterable[str], circumstances: str) -> None:
    """Print the result page with machine and command, and write it to a file if one is given."""
    module = Path(sys.argv[0]).stem
    command = shlex.join(["python", "-m", f"render_agent_lab.bench.{module}", *sys.argv[1:]])
    page = "\n".join([f"# {title}", "", *lines, "", f"{circumstances}.", "", f"    {command}", ""])
    click.echo(page)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(page, "utf-8")
