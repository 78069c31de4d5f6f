"""How much of the surface in the best direction does the first view show?

    python -m benchmarks.first_view --output benchmarks/results/first_view.md
    python -m benchmarks.first_view --scan FOLDER_OR_FILE

`--start best` chooses one of four headings at the start position. This compares it with HEADINGS headings at the same
position, and with the same headings at PLACES further standing places, by the measure that `--start best` maximises:
the number of 10 cm cubes with surface that a low-resolution view sees within 8 m. As a check it also counts these cubes
in images of FULL_PIXELS at any distance, and the share of the image that shows surface.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from benchmarks.harness import OUTPUT, machine, publish, table
from render_agent.render.projection import points_under
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.start_pose import (
    CANDIDATE_YAWS,
    EYE_HEIGHT_METRES,
    PATCH_METRES,
    count_visible_patches,
    start_camera,
)
from render_agent.scans.camera import Camera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.rooms import bundled
from render_agent.views.view_policies.tour import farthest_point_sample

HEADINGS = 24
PLACES = 6
VERTICAL_FOV = 75.0
FULL_PIXELS = (640, 480)
HEAD = (
    "scan",
    "rank of 24",
    "of best heading (%)",
    "of best place (%)",
    "rank, full image",
    "of best heading, full image (%)",
    "image covered (%)",
    "image covered by best heading (%)",
)


@click.command(help=__doc__)
@click.option(
    "--scan",
    "scans",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    help="Scan, or folder of scans, to measure in addition to the bundled rooms. Repeatable.",
)
@OUTPUT
def main(scans: tuple[Path, ...], output: Path | None) -> None:
    names, measured = [], []
    for path in scan_files(scans):
        names.append(path.stem)
        measured.append(measure(path))
    rows = [figures(name, values) for name, values in zip(names, measured, strict=True)]
    rows.append(figures("mean", np.mean(measured, axis=0).tolist(), ranks=False))
    lines = [
        f"`--start best` compares {len(CANDIDATE_YAWS)} headings. The table compares its view with the best of"
        f" {HEADINGS} headings at the same position, and with the best of these headings there and at {PLACES} further"
        " standing places. Surface is the number of 10 cm cubes seen within 8 m in 160 x 120 pixels, which"
        " `--start best` maximises. In the full image (640 x 480 pixels) it is counted at any distance.",
        "",
        *table(HEAD, rows),
    ]
    publish(output, "First views", lines, machine())


def figures(name: str, values: Sequence[float], *, ranks: bool = True) -> list[str | None]:
    """Return a row of the table."""
    return [
        name,
        *(
            (f"{value:.0f}" if ranks else None) if "rank" in head else f"{value:.1f}"
            for head, value in zip(HEAD[1:], values, strict=True)
        ),
    ]


def scan_files(scans: tuple[Path, ...]) -> Iterator[Path]:
    """Yield the bundled rooms, then the given scans and those in the given folders."""
    yield from sorted({question.scan for question in bundled() if question.scan is not None})
    for scan in scans:
        yield from sorted(scan.glob("*.[pg]l[yb]")) if scan.is_dir() else [scan]


def measure(path: Path) -> list[float]:
    """Return the figures of a scan in the order of HEAD."""
    scene = load_scene(path)
    space, renderer = FreeSpace.of(scene), Rasteriser()
    first = start_camera(scene, renderer, space, "best", VERTICAL_FOV)
    surface, here = count_visible_patches(scene, renderer, first), headings(first)
    seen = [count_visible_patches(scene, renderer, camera) for camera in here]
    places = farthest_point_sample(space.standing_places(EYE_HEIGHT_METRES), first.position, PLACES)
    elsewhere = [
        count_visible_patches(scene, renderer, camera)
        for place in places
        for camera in headings(first.at(place))
    ]
    full, covered = seen_in_full(scene, renderer, first)
    full_here, covered_here = zip(
        *(seen_in_full(scene, renderer, camera) for camera in here), strict=True
    )
    renderer.close()
    return [
        1 + sum(other > surface for other in seen),
        100 * surface / max(seen),
        100 * surface / max([*seen, *elsewhere]),
        1 + sum(other > full for other in full_here),
        100 * full / max(full_here),
        100 * covered,
        100 * max(covered_here),
    ]


def headings(camera: Camera) -> list[Camera]:
    """Return the camera turned to each heading."""
    return [replace(camera, yaw=360.0 * number / HEADINGS - 180.0) for number in range(HEADINGS)]


def seen_in_full(scene: Scene, renderer: Rasteriser, camera: Camera) -> tuple[int, float]:
    """Return the number of cubes in the full image at any distance, and the share of the image that shows surface."""
    depth = renderer.draw(scene, camera, *FULL_PIXELS).depth
    rows, columns = np.nonzero(np.isfinite(depth))
    points = points_under(camera, columns, rows, depth[rows, columns].astype(float), FULL_PIXELS)
    cubes = np.unique(np.rint(points / PATCH_METRES).astype(np.int64), axis=0)
    return len(cubes), len(rows) / depth.size


if __name__ == "__main__":
    main()
