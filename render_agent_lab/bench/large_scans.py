"""Seconds of processor time to read a large scan, find its free space, and draw its first view.

    python -m render_agent_lab.bench.large_scans --output render_agent_lab/bench/results/large_scans.md

The clouds are furnished rooms of a given number of points; more than 20 million are thinned when they are read. The wide
scans are meshes of a given number of metres, of such rooms side by side. The first view includes the start pose, the
blocks that are built once per scene, and the map.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

from render_agent.api.scenes import ply
from render_agent.render.rasteriser.rasteriser import Rasteriser, compile_kernels
from render_agent.render.viewer import Viewer
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.visibility.start_pose import start_camera
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table
from render_agent_lab.bench.render import HIGH, cloud_room, mesh_room

FACES_PER_ROOM = 2_000
HEAD = ("scan", "reading", "free space", "first view", "second view")


def wide_scan(metres: float) -> Scene:
    """Return a mesh of about the given width and depth in metres: rooms side by side."""
    room = mesh_room(FACES_PER_ROOM)
    assert room.faces is not None
    columns, rows = np.ceil(metres / HIGH[:2]).astype(int)
    shifts = [
        (column * HIGH[0], row * HIGH[1], 0.0) for column in range(columns) for row in range(rows)
    ]
    num_points = len(room.points)
    return replace(
        room,
        id=f"{metres:g} m wide, {len(shifts) * len(room.faces):,} faces",
        points=np.concatenate([room.points + np.array(shift, np.float32) for shift in shifts]),
        colours=np.tile(room.colours, (len(shifts), 1)),
        faces=np.concatenate([room.faces + n * num_points for n in range(len(shifts))]),
    )


def measure(scene: Scene, folder: Path) -> list[str]:
    """Return a row of the table."""
    path = folder / "scan.ply"
    path.write_bytes(ply(scene.points, scene.colours, scene.faces))
    viewer = Viewer(Rasteriser(), (640, 480), 75.0)
    times = [time.process_time()]
    read_scene = load_scene(path)
    times.append(time.process_time())
    space = FreeSpace.of(read_scene)
    times.append(time.process_time())
    for _ in range(2):
        camera = start_camera(read_scene, viewer.renderer, space, "best", viewer.vertical_fov)
        viewer.ego(read_scene, camera)
        viewer.top(read_scene, camera)
        times.append(time.process_time())
    viewer.close()
    return [scene.id, *(f"{seconds:.1f}" for seconds in np.diff(times))]


@click.command(help=__doc__)
@click.option(
    "--points",
    "points",
    multiple=True,
    type=int,
    default=(5_000_000, 19_000_000, 25_000_000),
    show_default=True,
)
@click.option("--metres", multiple=True, type=float, default=(50.0, 150.0), show_default=True)
@OUTPUT
def main(points: tuple[int, ...], metres: tuple[float, ...], output: Path | None) -> None:
    compile_kernels()
    with tempfile.TemporaryDirectory() as folder:
        measure(wide_scan(8.0), Path(folder))  # compiles the remaining kernels
        rows = [measure(cloud_room(count), Path(folder)) for count in points]
        rows += [measure(wide_scan(width), Path(folder)) for width in metres]
    note = "Seconds of processor time. The first view includes the start pose, the blocks of the scene, and the map."
    lines = [note, "", *table(HEAD, rows)]
    publish(output, "Large scans", lines, machine("numpy", "numba"))


if __name__ == "__main__":
    main()
