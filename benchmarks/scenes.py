"""Seconds and memory that each reader takes for a scan, side by side.

    python benchmarks/scenes.py --output benchmarks/results/scenes.md

Every reading happens in a process of its own, which has imported its reader before the clock
starts; a figure is the best of the runs; ASCII files are read once. Memory is what the process grew by at its highest. What
render_agent does more than the others (checks, bounds, floor, shading) is part of its time; `rows
only` is its reading alone.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

import click

from render_agent.scene.formats.ply.binary import binary_ply

READERS = "render_agent,rows only,trimesh,open3d"
SCANS = "1000000f,5000000f,10000000p"


def reader_of(name: str) -> Callable[[Path], int]:
    """Return what reads a PLY file and says how many points it found."""
    if name == "render_agent":
        from render_agent.scene.formats.load import load_scene

        return lambda path: len(load_scene(path).points)
    if name == "rows only":
        from render_agent.scene.formats.load import read_scan

        return lambda path: len(read_scan(path, "auto").points)
    if name == "trimesh":
        import trimesh

        return lambda path: len(trimesh.load(path, process=False).vertices)
    import open3d

    def read(path: Path) -> int:
        if "f" in path.stem:
            return len(open3d.io.read_triangle_mesh(str(path)).vertices)
        return len(open3d.io.read_point_cloud(str(path)).points)

    return read


def measure(name: str, path: Path, pipe: Connection) -> None:
    """Send the seconds, the megabytes and the points of one reading."""
    reader_of("render_agent")
    read = reader_of(name)
    Path("/proc/self/clear_refs").write_text("5")  # forgets the highest use so far
    before = highest_use()
    start = time.perf_counter()
    points = read(path)
    seconds = time.perf_counter() - start
    pipe.send((seconds, highest_use() - before, points))


def highest_use() -> float:
    """Return the highest memory use of this process, in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    line = next(line for line in lines if line.startswith("VmHWM"))
    return float(line.split()[1]) / 1024


def reading(name: str, path: Path, runs: int) -> str:
    """Return the best of some readings as a cell of the table."""
    context = multiprocessing.get_context("spawn")
    best: tuple[float, float, int] | None = None
    for _ in range(runs):
        here, there = context.Pipe()
        process = context.Process(target=measure, args=(name, path, there))
        process.start()
        there.close()
        try:
            found = here.recv()
        except EOFError:
            return "failed"
        process.join()
        best = found if best is None else min(best, found)
    assert best is not None
    return f"{best[0]:.2f} s, {best[1]:,.0f} MB"


def write(scan: str, folder: Path, ascii_text: bool) -> Path:
    """Write a furnished room with so many faces (f) or points (p) as a PLY file."""
    import open3d
    from made_room import cloud_room, mesh_room

    path = folder / f"{scan}{'_ascii' if ascii_text else ''}.ply"
    scene = (mesh_room if scan[-1] == "f" else cloud_room)(int(scan[:-1]))
    points = scene.points.astype("<f4")
    if ascii_text:
        vectors = open3d.utility.Vector3dVector
        colours = vectors(scene.colours / 255.0)
        if scene.faces is None:
            cloud = open3d.geometry.PointCloud(vectors(points.astype(float)))
            cloud.colors = colours
            open3d.io.write_point_cloud(str(path), cloud, write_ascii=True)
        else:
            corners = open3d.utility.Vector3iVector(scene.faces)
            mesh = open3d.geometry.TriangleMesh(vectors(points.astype(float)), corners)
            mesh.vertex_colors = colours
            open3d.io.write_triangle_mesh(str(path), mesh, write_ascii=True)
        return path
    path.write_bytes(binary_ply(points, scene.colours, scene.faces))
    return path


@click.command()
@click.option("--readers", default=READERS, show_default=True)
@click.option("--scans", default=SCANS, show_default=True, help="Faces (f) or points (p).")
@click.option("--runs", default=2, show_default=True)
@click.option("--output", type=click.Path(path_type=Path), help="Write the table there, too.")
def main(readers: str, scans: str, runs: int, output: Path | None) -> None:
    """Print seconds and memory to read scans, and write them to a Markdown file."""
    names = readers.split(",")
    packages = ", ".join(f"{name} {version(name)}" for name in ("numpy", "trimesh"))
    lines = [
        "# Reading scans",
        "",
        "`python benchmarks/scenes.py --output benchmarks/results/scenes.md`",
        "",
        f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()},"
        f" {packages}, open3d-cpu {version('open3d-cpu')}; best of {runs} runs, ASCII one run.",
        "",
        f"| scan | {' | '.join(names)} |",
        f"|---|{'---|' * len(names)}",
    ]
    print("\n".join(lines), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for scan in scans.split(","):
            for ascii_text in (False, True):
                path = write(scan, Path(folder), ascii_text)
                cells = [reading(name, path, 1 if ascii_text else runs) for name in names]
                kind = "faces" if scan[-1] == "f" else "points"
                size = path.stat().st_size / 1e6
                title = f"{int(scan[:-1]):,} {kind}, {'ASCII' if ascii_text else 'binary'}"
                lines.append(f"| {title}, {size:,.0f} MB | {' | '.join(cells)} |")
                print(lines[-1], flush=True)
                path.unlink()
    if output is not None:
        output.write_text("\n".join([*lines, ""]))


if __name__ == "__main__":
    main()
