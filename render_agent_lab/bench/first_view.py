"""How much of the surface that the best heading shows does the first view show, and what does the choice cost?

    python -m render_agent_lab.bench.first_view --output render_agent_lab/bench/results/first_view.md
    python -m render_agent_lab.bench.first_view --scan FOLDER_OR_FILE

Measures the bundled rooms, MADE rooms of `make-rooms`, as many of `make-rooms --as-scan`, and the given scans. The
surface of a view is the area of triangles, or the number of occupied 5 cm cells of a cloud, that an image of FULL_PIXELS
shows at any distance. It is estimated from SAMPLES points other than those of `--start best`, and from images of full
size. The first views by `best` and by `four-headings`, the rule of earlier versions, are compared with the best of
HEADINGS headings at the same place, and with the best of them at any of PLACES places across the open area.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.viewer import Viewer
from render_agent.scans.camera import Camera, FloatArray
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent.visibility.coverage import mark_shown, sample_surface
from render_agent.visibility.start_pose import EYE_HEIGHT_METRES, start_camera
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table
from render_agent_lab.room_generator.command import make_rooms

RULES = ("best", "four-headings")
HEADINGS = 24
PLACES = 12
SAMPLES = 50_000
FULL_PIXELS = (640, 480)
FIELD_OF_VIEW = 75.0  # horizontal degrees
MADE = 8
SUFFIXES = {".ply", ".glb", ".spz"}
HEAD = (
    "scan",
    *(
        f"{rule}: {what}"
        for rule in RULES
        for what in ("rank of 24", "of best heading (%)", "of best place (%)", "image covered (%)")
    ),
    "choice by best (CPU ms)",
    "first turn without it (CPU ms)",
)


@click.command(help=__doc__)
@click.option(
    "--scan",
    "scans",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Scan, or folder of scans, to measure in addition. Repeatable.",
)
@OUTPUT
def main(scans: tuple[Path, ...], output: Path | None) -> None:
    with tempfile.TemporaryDirectory() as folder:
        files = list(scan_files(scans, Path(folder)))
        values_by_file = [measure(path) for _, path in files]
    rows = [figures(name, values) for (name, _), values in zip(files, values_by_file, strict=True)]
    means = np.mean(values_by_file, axis=0).tolist()
    rows.append(figures(f"mean of {len(values_by_file)}", means, ranks=False))
    lines = [
        f"Surface shown by the first view, in percent of that shown by the best of {HEADINGS} headings at the same place, and"
        f" at any of {PLACES} places across the open area. `four-headings` was the rule of `--start best` in earlier"
        " versions. The first turn is reading the scan, its free space, and rendering the map and the first view.",
        "",
        *table(HEAD, rows),
    ]
    publish(output, "First views", lines, machine())


def figures(name: str, values: Sequence[float], *, ranks: bool = True) -> list[str | None]:
    """Return a row of the table."""
    return [
        name,
        *(
            (f"{value:.0f}" if ranks else None)
            if "rank" in head
            else f"{value:.{0 if ' ms)' in head else 1}f}"
            for head, value in zip(HEAD[1:], values, strict=True)
        ),
    ]


def scan_files(scans: tuple[Path, ...], folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of the bundled rooms, of made ones, and of the given scans and those in the given folders."""
    for path in sorted(
        {question.scan for question in load_bundled_rooms() if question.scan is not None}
    ):
        yield path.stem, path
    for name, as_scan in (("made", False), ("made as scan", True)):
        make_rooms(folder / name, MADE, seed=40, per_type=0, as_scan=as_scan)
        for path in sorted((folder / name).glob("*.ply")):
            yield f"{name} {path.stem.removeprefix('room')}", path
    for scan in scans:
        paths = (
            sorted(p for p in scan.iterdir() if p.suffix in SUFFIXES) if scan.is_dir() else [scan]
        )
        yield from ((path.stem, path) for path in paths)


def measure(path: Path) -> list[float]:
    """Return the figures of a scan in the order of HEAD."""
    viewer = Viewer(Rasteriser(), FULL_PIXELS, FIELD_OF_VIEW)
    started_at = time.process_time()
    scene = load_scene(path)
    space = FreeSpace.of(scene)
    space.start_position(EYE_HEIGHT_METRES)
    reading_seconds = time.process_time() - started_at
    starts = [
        start_camera(scene, viewer.renderer, space, rule, viewer.vertical_fov) for rule in RULES
    ]
    choice_seconds = min(seconds_to_choose(scene, viewer, space) for _ in range(3))
    started_at = time.process_time()
    viewer.ego(scene, starts[0])
    viewer.top(scene, starts[0])
    turn_seconds = reading_seconds + time.process_time() - started_at
    surface = sample_surface(scene, SAMPLES, space.unmirrored_samples)
    cameras = [starts[0].at(position) for position in space.start_places(PLACES, EYE_HEIGHT_METRES)]
    best = max(
        measure_shown(scene, viewer, surface, camera)[0]
        for standing_camera in cameras
        for camera in headings(standing_camera)
    )
    row: list[float] = []
    for camera in starts:
        area, covered = measure_shown(scene, viewer, surface, camera)
        areas = [measure_shown(scene, viewer, surface, turned)[0] for turned in headings(camera)]
        row += [
            1 + sum(heading_area > area for heading_area in areas),
            100 * area / max(areas),
            100 * area / max(best, *areas),
            100 * covered,
        ]
    viewer.close()
    return [*row, 1000 * choice_seconds, 1000 * turn_seconds]


def seconds_to_choose(scene: Scene, viewer: Viewer, space: FreeSpace) -> float:
    """Return the CPU time of choosing the start pose; the scene has been drawn before."""
    started_at = time.process_time()
    start_camera(scene, viewer.renderer, space, "best", viewer.vertical_fov)
    return time.process_time() - started_at


def headings(camera: Camera) -> list[Camera]:
    """Return the camera turned to each heading."""
    return [replace(camera, yaw=360.0 * number / HEADINGS - 180.0) for number in range(HEADINGS)]


def measure_shown(
    scene: Scene, viewer: Viewer, surface: FloatArray, camera: Camera
) -> tuple[int, float]:
    """Return the number of surface points that the full image shows, and the share of it that shows surface."""
    frame = viewer.renderer.draw(scene, camera, *viewer.size)
    is_seen = np.zeros(len(surface), bool)
    mark_shown(is_seen, surface, frame.depth, camera)
    return int(is_seen.sum()), float(np.isfinite(frame.depth).mean())


if __name__ == "__main__":
    main()
