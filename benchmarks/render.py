"""Milliseconds a view of each renderer, side by side.

    python benchmarks/render.py --output benchmarks/results/render

Every renderer lives in a process of its own; they take turns, one run each, so that whatever else
the machine does meets all of them alike. A run draws four views of a furnished room (colours and
depth in main memory); a figure is the best run's time a view. What is not installed or cannot draw
a scene is reported as absent, with the reason. A load average well above the renderers' own (about
the number of cores) says that the machine had other work.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import numpy as np

RENDERERS = "rasteriser,vtk,pyrender,open3d-window"
SCENES = "150000f,1000000f,5000000f,1000000p,10000000p"
PACKAGES = ("numpy", "numba", "vtk", "pyrender", "open3d-cpu", "open3d")
PATIENCE = 4.0
"""A renderer whose first run took longer than this many seconds has no further runs."""


def serve(name: str, pipe: Connection) -> None:
    """Draw what the pipe asks for, with one renderer; the answers are seconds, or what is wrong."""
    from made_room import VIEWS, cloud_room, mesh_room
    from other_renderers import renderer_of

    try:
        renderer = renderer_of(name)
    except Exception as error:  # noqa: BLE001 (others' renderers fail in any way: absent)
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send(None)
    scene: Any = None
    while (task := pipe.recv()) is not None:
        kind, *what = task
        try:
            if kind == "load":
                scene = None
                scene = (mesh_room if what[0][-1] == "f" else cloud_room)(int(what[0][:-1]))
                pipe.send(None)
                continue
            width, height = what
            start = time.perf_counter()
            for camera in VIEWS[: 1 if kind == "warm up" else None]:
                frame = renderer.draw(scene, camera, width, height)
            seconds = time.perf_counter() - start
            if np.isfinite(frame.depth).mean() < 0.9:
                raise ValueError("its picture of a closed room has holes")
            pipe.send(seconds if kind == "warm up" else seconds / len(VIEWS))
        except Exception as error:  # noqa: BLE001 (as above)
            pipe.send(f"{type(error).__name__}: {error}")
    renderer.close()


class Worker:
    """One renderer in its own process."""

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(name, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.absent: str | None = self._answer()

    def ask(self, *task: Any) -> Any:
        """Return the answer to a task: seconds, None, or the sentence that says what is wrong."""
        if self.absent is not None:
            return self.absent
        self._pipe.send(task)
        return self._answer()

    def _answer(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join()
            self.absent = f"its process ended with {self._process.exitcode}"
            return self.absent

    def close(self) -> None:
        """End the process."""
        if self._process.is_alive() and self.absent is None:
            self._pipe.send(None)
        self._process.join(10)


def measure(workers: list[Worker], size: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Return each renderer's figures at one size of picture: first and best milliseconds, or why not."""
    first = {worker.name: worker.ask("warm up", *size) for worker in workers}
    runs: dict[str, list[float]] = {worker.name: [] for worker in workers}
    for _ in range(rounds):
        for worker in workers:
            done = runs[worker.name]
            if isinstance(first[worker.name], str) or (done and done[0] * 4 > PATIENCE):
                continue
            answer = worker.ask("draw", *size)
            if isinstance(answer, str):
                first[worker.name] = answer
            else:
                done.append(answer)
    return {
        name: {"absent": first[name]}
        if isinstance(first[name], str)
        else {"first_ms": first[name] * 1e3, "best_ms": min(done) * 1e3, "runs": len(done)}
        for name, done in runs.items()
    }


def machine() -> dict[str, Any]:
    """Return what was measured on, with which versions, and how."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    processor = platform.processor()
    details = Path("/proc/cpuinfo")
    if details.exists():
        names = [line for line in details.read_text().splitlines() if line.startswith("model name")]
        processor = names[0].split(":")[1].strip() if names else processor
    return {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "command": " ".join(["python", "benchmarks/render.py", *sys.argv[1:]]),
        "processor": processor,
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
        "load_before": round(os.getloadavg()[0], 2),
    }


def table(results: list[dict[str, Any]], names: list[str]) -> str:
    """Return the figures as a Markdown table: milliseconds, and the ratio to the first renderer."""
    lines = [
        "| scene | picture | " + " | ".join(names) + " |",
        "|---|---|" + "---|" * len(names),
    ]
    for row in results:
        ours = row["figures"][names[0]].get("best_ms")
        cells = []
        for name in names:
            best = row["figures"][name].get("best_ms")
            ratio = f" ({best / ours:.1f}×)" if best and ours and name != names[0] else ""
            cells.append(f"{best:,.1f}{ratio}" if best else "absent")
        lines.append(f"| {row['scene']} | {row['picture']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page(report: dict[str, Any], names: list[str]) -> str:
    """Return the report as Markdown."""
    where = report["machine"]
    absent = {
        f"* {name}, {row['scene']}: {figures['absent']}"
        for row in report["results"]
        for name, figures in row["figures"].items()
        if "absent" in figures
    }
    return "\n".join(
        [
            "# Milliseconds a view",
            "",
            f"Best of interleaved runs of four views each; in brackets the ratio to {names[0]}.",
            "",
            table(report["results"], names),
            "",
            *sorted(absent),
            *([""] if absent else []),
            f"{where['processor']}, {where['cores']} cores, {where['system']}, "
            f"Python {where['python']}, "
            + ", ".join(f"{name} {number}" for name, number in where["versions"].items())
            + f"; {where['when']}; load average {where['load_before']} before, "
            f"{where['load_after']} after.",
            "",
            f"    {where['command']}",
            "",
        ]
    )


@click.command()
@click.option("--renderers", default=RENDERERS, show_default=True, help="The first is the measure.")
@click.option("--scenes", default=SCENES, show_default=True, help="Faces (f) or points (p).")
@click.option("--pictures", default="640x480,1024x1024", show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Runs of each renderer.")
@click.option("--output", type=click.Path(path_type=Path), help="Writes OUTPUT.json and OUTPUT.md.")
def main(renderers: str, scenes: str, pictures: str, rounds: int, output: Path | None) -> None:
    """Measure renderers side by side."""
    names = renderers.split(",")
    workers = [Worker(name) for name in names]
    report: dict[str, Any] = {"machine": machine(), "results": []}
    for scene in scenes.split(","):
        for worker in workers:
            worker.ask("load", scene)
        for picture in pictures.split(","):
            width, height = (int(side) for side in picture.split("x"))
            figures = measure(workers, (width, height), rounds)
            kind = "faces" if scene[-1] == "f" else "points"
            row = {"scene": f"{int(scene[:-1]):,} {kind}", "picture": picture, "figures": figures}
            report["results"].append(row)
            click.echo(table([row], names).splitlines()[-1])
    report["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    for worker in workers:
        worker.close()
    click.echo("\n" + page(report, names))
    if output is not None:
        output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        output.with_suffix(".md").write_text(page(report, names))


if __name__ == "__main__":
    main()
