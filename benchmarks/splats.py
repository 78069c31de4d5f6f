"""Milliseconds a view of splats like captures of rooms: on the processor, and beside gsplat on a GPU.

    python benchmarks/splats.py --output benchmarks/results/splats
    python benchmarks/splats.py --gpu --output benchmarks/results/splats_gpu
    python benchmarks/splats.py --open3d --runs 2 --output benchmarks/results/splats_open3d

The Gaussians are made (benchmarks/made_splat.py) on the surfaces of a furnished house, harmonics of degree 3,
half of them seen through more than not. Five views of 640x480: four from its middle, and one through all of
its length, which nearly all Gaussians are in. A figure is the best of the runs. Where the machine has other
work, the seconds of all processors together say more than those on the clock. With --gpu every view is drawn
by gsplat too: how alike the pictures are (PSNR), how far the depths differ, and its milliseconds, with the
picture and its depth in main memory. With --open3d it is drawn by Open3D too, whose shaders of Vulkan run on
the processor by Mesa's lavapipe (see `other_renderers.py`).
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

PACKAGES = ("numpy", "numba", "torch", "gsplat", "open3d-cpu")
WIDTH, HEIGHT = 640, 480

COMPARED = (
    "Open3D is the one package on PyPI that was found to draw splats on a processor, by Mesa's lavapipe, which runs"
    " its shaders of Vulkan: splax, gsplat and their like need an NVIDIA GPU, msplat and metal-gauss an Apple one"
    " (searched 2026-11-23). The figures beside it are in [splats_open3d.md](splats_open3d.md)."
)

BESIDE = (
    "Open3D draws by Mesa's lavapipe, with its own settings. It warns that it leaves out Gaussians which cover too"
    " many tiles, so that its pictures differ from ours and its milliseconds are of less work; whether that is all"
    " of the difference was not looked into. Both drew in one run; `times` compares the work of all processors, which others on the machine"
    " disturb less."
)


def cameras(scene: Any) -> list[Any]:
    """Return the five views."""
    from render_agent.geometry.camera import Camera

    low, high = scene.bounds
    x, y, _ = (low + high) / 2
    eye = scene.floor + 1.5
    views = [Camera((x, y, eye), yaw, -5.0) for yaw in (0.0, 90.0, 180.0, 270.0)]
    return [*views, Camera((low[0] + 0.5, y, eye), 0.0, -5.0)]


def timed(draw: Callable[[], Any], runs: int) -> tuple[Any, float, float]:
    """Return what is drawn, the best milliseconds on the clock, and the best of all processors together."""
    frame, wall, work = None, [], []
    for _ in range(runs):
        start, busy = time.perf_counter(), time.process_time()
        frame = draw()
        wall.append(time.perf_counter() - start)
        work.append(time.process_time() - busy)
    return frame, 1e3 * min(wall), 1e3 * min(work)


def measured(count: int, runs: int, gpu: Any, other: Any) -> dict[str, Any]:
    """Return the figures of one scene of so many Gaussians."""
    from made_splat import captured_room

    from render_agent.render.rasteriser.gaussians.renderer import GaussianRasteriser
    from render_agent.render.rasteriser.renderer import Rasteriser

    scene = captured_room(count)
    threads = Rasteriser()
    processor = GaussianRasteriser(threads._in_parts)
    views = []
    for camera in cameras(scene):
        frame, wall, work = timed(
            lambda at=camera: processor.draw(scene, at, WIDTH, HEIGHT), runs + 1
        )
        row = {"processor_ms": wall, "processor_work_ms": work}
        if gpu is not None:
            drawn, row["gpu_ms"], _ = timed(
                lambda at=camera: gpu.draw(scene, at, WIDTH, HEIGHT), runs + 3
            )
            error = np.mean((frame.colours.astype(float) - drawn.colours) ** 2)
            both = np.isfinite(frame.depth) & np.isfinite(drawn.depth)
            row["psnr_db"] = float(10 * np.log10(255**2 / max(error, 1e-9)))
            row["median_depth_difference_m"] = float(
                np.median(np.abs(frame.depth[both] - drawn.depth[both]))
            )
            row["same_pixels_with_depth"] = float(
                np.mean(np.isfinite(frame.depth) == np.isfinite(drawn.depth))
            )
        if other is not None:
            shown, wall, work = timed(lambda at=camera: other.draw(scene, at), runs + 1)
            error = np.mean((frame.colours.astype(float) - shown) ** 2)
            row |= {"open3d_ms": wall, "open3d_work_ms": work}
            row["open3d_psnr_db"] = float(10 * np.log10(255**2 / max(error, 1e-9)))
        views.append({name: round(value, 3) for name, value in row.items()})
    threads.close()
    return {"gaussians": count, "views": views}


def machine() -> dict[str, Any]:
    """Return what was measured on, with which versions, and how."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    details = Path("/proc/cpuinfo")
    lines = details.read_text().splitlines() if details.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "command": " ".join(["python", "benchmarks/splats.py", *sys.argv[1:]]),
        "processor": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "versions": versions,
        "load_before": round(os.getloadavg()[0], 2),
    }


def page(report: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    where = report["machine"]
    gpu = report["gpu"] is not None
    heads = ["Gaussians", "view", "ms", "ms of all processors"]
    beside = "open3d_ms" in report["results"][0]["views"][0]
    heads += ["Open3D, ms", "ms of all processors", "times", "PSNR, dB"] if beside else []
    heads += ["gsplat, ms", "PSNR, dB", "depths differ by, m"] if gpu else []
    lines = ["| " + " | ".join(heads) + " |", "|" + "--:|" * len(heads)]
    for result in report["results"]:
        for number, row in enumerate(result["views"], 1):
            cells = [f"{result['gaussians']:,}", str(number)]
            cells += [f"{row['processor_ms']:,.0f}", f"{row['processor_work_ms']:,.0f}"]
            if beside:
                cells += [f"{row[name]:,.0f}" for name in ("open3d_ms", "open3d_work_ms")]
                times = row["open3d_work_ms"] / row["processor_work_ms"]
                cells += [f"{times:.1f}", f"{row['open3d_psnr_db']:.1f}"]
            if gpu:
                cells += [f"{row['gpu_ms']:,.1f}", f"{row['psnr_db']:.1f}"]
                cells.append(f"{row['median_depth_difference_m']:.3f}")
            lines.append("| " + " | ".join(cells) + " |")
    told = [
        f"{where['processor']}, {where['cores']} cores" + (f", {report['gpu']}" if gpu else ""),
        ", ".join(f"{name} {number}" for name, number in where["versions"].items()),
        where["when"],
        f"load average {where['load_before']} before, {where['load_after']} after",
    ]
    return "\n".join(
        [
            "# Milliseconds a view of splats",
            "",
            f"Best of the runs, {WIDTH}x{HEIGHT}; views 1 to 4 from the middle of a house, 5 through all of it.",
            "",
            *lines,
            "",
            *([] if gpu else [BESIDE if beside else COMPARED, ""]),
            "; ".join(told) + ".",
            "",
            f"    {where['command']}",
            "",
        ]
    )


@click.command(help=__doc__)
@click.option("--sizes", default="1000000,5000000", help="Gaussians of each scene.")
@click.option(
    "--runs", default=3, help="Times that a view is drawn, beside one that does not count."
)
@click.option("--gpu", is_flag=True, help="Draw with gsplat too, and compare.")
@click.option("--open3d", is_flag=True, help="Draw with Open3D too, on the processor.")
@click.option("--output", type=click.Path(path_type=Path), required=True, metavar="PATH")
def main(sizes: str, runs: int, gpu: bool, open3d: bool, output: Path) -> None:
    """Measure, and write PATH.json and PATH.md."""
    renderer, device, other = None, None, None
    if open3d:
        from other_renderers import Open3dSplats

        other = Open3dSplats(WIDTH, HEIGHT)
    if gpu:
        import torch

        from render_agent.render.rasteriser.gaussians.gpu import GpuGaussians

        start = time.perf_counter()
        renderer = GpuGaussians()
        device = torch.cuda.get_device_name()
        click.echo(f"gsplat was ready after {time.perf_counter() - start:.0f} s", err=True)
    report = {"machine": machine(), "gpu": device, "results": []}
    for size in sizes.split(","):
        report["results"].append(measured(int(size), runs, renderer, other))
        click.echo(json.dumps(report["results"][-1]), err=True)
        report["machine"]["load_after"] = round(os.getloadavg()[0], 2)
        output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n", "utf-8")
        output.with_suffix(".md").write_text(page(report), "utf-8")


if __name__ == "__main__":
    main()
