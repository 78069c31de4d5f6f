"""How closed the walls of a scanned cloud are, how true their colours, and how long a view takes.

    python benchmarks/clouds.py --output benchmarks/results/clouds

A wall with another 0.5 m behind it is scanned as LiDAR does: evenly, in lines that lie further apart than
the points on them, or swept from one place, with the noise of such a scanner. A hole is a pixel of the
wall in which something else is seen; walls are seen from straight ahead and from the side (60 degrees).
Colours are compared with the wall's pattern, averaged over each pixel: a stain of uneven grey is the
noise of single points that stand for many.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from other_renderers import renderer_of
from render import machine

from render_agent.geometry.camera import Camera
from render_agent.scene.model import Scene

WIDTH, HEIGHT = 640, 480
DISTANCES = (0.5, 1.0, 2.0, 4.0, 8.0)
SIDE = 60.0
"""Degrees between the wall's normal and the view from the side."""

HALF, TOP = 3.0, 3.0
"""Metres: half the wall's width, and its height."""

RED, BLUE = (200, 40, 40), (30, 60, 200)
PATTERN_METRES = 0.011

Floats = NDArray[np.float64]
random = np.random.default_rng(7)


def even(spacing: float) -> Floats:
    """Return places on the wall, (n, 2) metres: one at random in every square of `spacing`."""
    u, v = np.meshgrid(np.arange(-HALF, HALF, spacing), np.arange(0, TOP, spacing))
    places = np.column_stack([u.ravel(), v.ravel()])
    return places + random.uniform(0, spacing, places.shape)


def lines(spacing: float) -> Floats:
    """Return places on lines that lie six times as far apart as the points on them; as many as `even`."""
    along, across = spacing / 6**0.5, spacing * 6**0.5
    u, v = np.meshgrid(np.arange(-HALF, HALF, along), np.arange(0, TOP, across))
    places = np.column_stack([u.ravel(), v.ravel()])
    return places + random.normal(0, along / 5, places.shape)


def swept(spacing: float) -> Floats:
    """Return places as a scanner at even angles sees them from 1 m in front of the wall's left third."""
    step = spacing / 2.5  # radians: so that the mean spacing on the wall is about `spacing`
    azimuth, elevation = np.meshgrid(np.arange(-1.5, 1.5, step), np.arange(-1.2, 1.2, step))
    u = -1.0 + np.tan(azimuth)
    v = 1.4 + np.tan(elevation) / np.cos(azimuth)
    inside = (np.abs(u) < HALF) & (v > 0) & (v < TOP)
    return np.column_stack([u[inside], v[inside]])


SCANNERS: dict[str, Callable[[float], Floats]] = {"even": even, "lines": lines, "swept": swept}


def pattern(u: Floats, v: Floats) -> Floats:
    """Return the colours, (n, 3), of a wall with fine wallpaper in two colours and a soft gradient."""
    odd = (np.floor(u / PATTERN_METRES) + np.floor(v / PATTERN_METRES)) % 2
    light, dark = np.array([235.0, 200.0, 90.0]), np.array([60.0, 40.0, 160.0])
    return np.where(odd[:, None] > 0, light, dark) * (0.8 + 0.2 * (v / TOP))[:, None]


def wall(scanner: str, spacing: float, *, painted: bool, beside: bool = False) -> Scene:
    """Return the scanned wall in the plane x = 0, with another 0.5 m behind it.

    beside: with a patch near the scanner of a twentieth of the spacing, out of sight, in which most of the
    points lie: so are scans of whole rooms from one place.
    """
    places = SCANNERS[scanner](spacing)
    behind = even(max(spacing, 0.01))
    points = np.concatenate(
        [
            np.column_stack([np.zeros(len(places)), places]),
            np.column_stack([np.full(len(behind), 0.5), behind]),
        ]
    )
    count = int(2e5) if beside else 0
    points = np.concatenate([points, patch(count, spacing / 20)])
    points[:, 0] += random.normal(0, min(0.003, spacing / 4), len(points))
    front = pattern(places[:, 0], places[:, 1]) if painted else np.tile(RED, (len(places), 1))
    colours = np.concatenate([front, np.tile(BLUE, (len(behind) + count, 1))]).astype(np.uint8)
    bounds = np.array([points.min(axis=0), points.max(axis=0)])
    return Scene("wall", points.astype(np.float32), colours, None, 0.0, TOP, bounds)


def patch(count: int, spacing: float) -> Floats:
    """Return points, (count, 3) metres, on a square far behind all walls."""
    side = spacing * count**0.5
    return np.column_stack([np.full(count, 3.0), random.uniform(0, side, (count, 2))])


def camera_at(distance: float, angle: float) -> Camera:
    """Return the camera that looks at the wall's middle from a distance, `angle` degrees to its side."""
    away = np.radians(angle)
    return Camera((-distance * np.cos(away), -distance * np.sin(away), 1.4), angle)


def on_the_wall(camera: Camera) -> tuple[NDArray[np.bool_], Callable[[Floats, Floats], Any]]:
    """Return which pixels see the wall, well inside of it, and what gives the places that pixels see."""
    pose, focal = camera.pose, camera.focal(HEIGHT)

    def places(columns: Floats, rows: Floats) -> tuple[Floats, Floats]:
        rays = np.stack(
            [(columns - WIDTH / 2) / focal, (rows - HEIGHT / 2) / focal, np.ones_like(columns)], -1
        )
        world = rays @ pose[:3, :3].T
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = -pose[0, 3] / world[..., 0]
        seen = pose[:3, 3] + reach[..., None] * world
        return np.where(reach > 0, seen[..., 1], np.inf), seen[..., 2]

    columns, rows = np.meshgrid(np.arange(WIDTH) + 0.5, np.arange(HEIGHT) + 0.5)
    u, v = places(columns, rows)
    return (np.abs(u) < HALF - 0.15) & (v > 0.15) & (v < TOP - 0.15), places


def holes(renderer: Any, scene: Scene, camera: Camera) -> float:
    """Return the percent of the wall's pixels in which something else is seen."""
    inside, _ = on_the_wall(camera)
    colours = renderer.draw(scene, camera, WIDTH, HEIGHT).colours[inside]
    return 100 * float((np.abs(colours.astype(int) - RED).max(axis=1) > 8).mean())


def colour_error(renderer: Any, scene: Scene, camera: Camera) -> tuple[float, float]:
    """Return how far colours are off the wall's mean in each pixel: root mean square, and their mean."""
    inside, places = on_the_wall(camera)
    rows, columns = np.nonzero(inside)
    truth = np.zeros((len(rows), 3))
    steps = (np.arange(6) + 0.5) / 6
    for down in steps:
        for right in steps:
            u, v = places(columns + right, rows + down)
            truth += pattern(u, v) / len(steps) ** 2
    shown = renderer.draw(scene, camera, WIDTH, HEIGHT).colours[inside].astype(float)
    off = shown - truth
    return float(np.sqrt((off**2).mean())), float(np.abs(off.mean(axis=0)).max())


def milliseconds(renderer: Any, scene: Scene, rounds: int) -> float:
    """Return the best time of a view from 2 m."""
    camera = camera_at(2.0, 20.0)
    renderer.draw(scene, camera, WIDTH, HEIGHT)
    best = np.inf
    for _ in range(rounds):
        began = time.perf_counter()
        renderer.draw(scene, camera, WIDTH, HEIGHT)
        best = min(best, time.perf_counter() - began)
    return best * 1e3


def measured(name: str, rounds: int) -> dict[str, Any]:
    """Return the figures of one renderer."""
    renderer = renderer_of(name)
    figures: dict[str, Any] = {"holes": {}, "colour": {}, "milliseconds": {}}
    for spacing in (0.005, 0.03):
        for scanner in SCANNERS:
            key = f"{scanner} {1000 * spacing:g} mm"
            plain = wall(scanner, spacing, painted=False)
            figures["milliseconds"][f"{key}, {len(plain.points):,} points"] = milliseconds(
                renderer, plain, rounds
            )
            for angle in (0.0, SIDE):
                row = figures["holes"].setdefault(f"{key}, {angle:g} degrees", {})
                for distance in DISTANCES:
                    row[f"{distance:g} m"] = holes(renderer, plain, camera_at(distance, angle))
        scanned = wall("even", spacing, painted=False, beside=True)
        row = figures["holes"][f"even {1000 * spacing:g} mm in a scan that is dense elsewhere"] = {}
        for distance in DISTANCES:
            row[f"{distance:g} m"] = holes(renderer, scanned, camera_at(distance, 0.0))
        painted = wall("even", spacing, painted=True)
        for distance in DISTANCES:
            rms, mean = colour_error(renderer, painted, camera_at(distance, 0.0))
            row = figures["colour"].setdefault(f"even {1000 * spacing:g} mm", {})
            row[f"{distance:g} m"] = {"rms": rms, "mean": mean}
    renderer.close()
    return figures


def page(report: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    names = list(report["figures"])
    where = report["machine"]
    text = ["# Clouds: closed walls, true colours", "", *(__doc__ or "").split("\n\n")[2:3], ""]
    text += ["Percent of a wall's pixels that are holes, by the distance of the camera:", ""]
    far = [f"{distance:g} m" for distance in DISTANCES]
    text += ["| scan | renderer | " + " | ".join(far) + " |", "|---|---|" + "---|" * len(far)]
    for key in report["figures"][names[0]]["holes"]:
        for name in names:
            row = report["figures"][name]["holes"][key]
            text.append(f"| {key} | {name} | " + " | ".join(f"{row[d]:.2f}" for d in far) + " |")
    text += ["", "Levels (of 255) that a patterned wall is off its mean in each pixel, root mean square", "(in brackets the mean of all pixels):", ""]  # fmt: skip
    text += ["| scan | renderer | " + " | ".join(far) + " |", "|---|---|" + "---|" * len(far)]
    for key in report["figures"][names[0]]["colour"]:
        for name in names:
            row = report["figures"][name]["colour"][key]
            cells = (f"{row[d]['rms']:.1f} ({row[d]['mean']:.1f})" for d in far)
            text.append(f"| {key} | {name} | " + " | ".join(cells) + " |")
    text += ["", "Best milliseconds of a view from 2 m:", ""]
    text += ["| scan | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for key in report["figures"][names[0]]["milliseconds"]:
        cells = (f"{report['figures'][name]['milliseconds'][key]:.1f}" for name in names)
        text.append(f"| {key} | " + " | ".join(cells) + " |")
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    text += ["", f"{where['processor']}, {where['cores']} cores, Python {where['python']}, {versions};"
             f" {where['when']}; load average {where['load_before']} before, {where['load_after']} after.",
             "", f"    {where['command']}", ""]  # fmt: skip
    return "\n".join(text)


@click.command()
@click.option("--renderers", default="rasteriser,pyrender", show_default=True)
@click.option("--rounds", default=8, show_default=True, help="Views of which the best is told.")
@click.option("--before", type=click.Path(path_type=Path), help="An older JSON, shown beside.")
@click.option("--output", type=click.Path(path_type=Path), help="Writes OUTPUT.json and OUTPUT.md.")
def main(renderers: str, rounds: int, before: Path | None, output: Path | None) -> None:
    """Measure how clouds are drawn."""
    where = machine() | {"command": " ".join(["python", "benchmarks/clouds.py", *sys.argv[1:]])}
    report: dict[str, Any] = {"machine": where, "figures": {}}
    if before is not None:
        older = json.loads(before.read_text())["figures"]
        report["figures"]["rasteriser before"] = older["rasteriser"]
    for name in renderers.split(","):
        report["figures"][name] = measured(name, rounds)
    where["load_after"] = round(os.getloadavg()[0], 2)
    click.echo(page(report))
    if output is not None:
        output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        output.with_suffix(".md").write_text(page(report))


if __name__ == "__main__":
    main()
