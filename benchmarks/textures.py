"""Milliseconds a view of a room with pictures on its faces, beside the same room in vertex colours.

    python benchmarks/textures.py --output benchmarks/results/textures

Both rooms are drawn in turn by each renderer, four views a run; a figure is the best run's time a view.
Milliseconds of the clock, and of all processors together, which other work on the machine disturbs less.
The rooms are those of `render.py`, with eight pictures of 1,024 by 1,024 pixels, one every two metres.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from made_room import VIEWS, mesh_room
from render import machine

from render_agent.errors import SetupError
from render_agent.render.registry import make_renderer
from render_agent.scene.model import Scene
from render_agent.scene.texture import Material, Texture

ACROSS = np.array([[0.5, 0.1], [0.2, 0.15], [0.1, 0.5]])
"""From metres to places in a picture, (3, 2); no plane of the room is edge on to it."""

PICTURES, SIDE = 8, 1024


def pictured(scene: Scene) -> Scene:
    """Return the room with pictures of noise and stripes on runs of its faces."""
    assert scene.faces is not None
    dice = np.random.default_rng(2)
    materials = []
    for number in range(PICTURES):
        picture = dice.integers(0, 256, (SIDE, SIDE, 4)).astype(np.uint8)
        picture[:, :: number + 2, :3] = dice.integers(0, 256, 3)
        picture[..., 3] = 255
        materials.append(Material(picture))
    runs = np.arange(len(scene.faces)) * 40 // len(scene.faces) % PICTURES
    uv = (scene.points @ ACROSS).astype(np.float32)
    return replace(scene, texture=Texture(uv, runs.astype(np.int32), tuple(materials)))


def measured(name: str, count: int, size: tuple[int, int], rounds: int) -> dict[str, Any]:
    """Return the best milliseconds a view with vertex colours and with pictures, or why there are none."""
    try:
        renderer = make_renderer(name)
    except SetupError as error:
        return {"absent": str(error)}
    plain = mesh_room(count)
    rooms = {"colours": plain, "pictures": pictured(plain)}
    best: dict[str, float] = {}
    for number in range(rounds + 1):
        for kind, room in rooms.items():
            start, worked = time.perf_counter(), time.process_time()
            for camera in VIEWS:
                renderer.draw(room, camera, *size)
            taken = {
                kind: (time.perf_counter() - start) * 1e3 / len(VIEWS),
                f"{kind} work": (time.process_time() - worked) * 1e3 / len(VIEWS),
            }
            if number:  # the first makes blocks and mip levels
                best |= {key: min(best.get(key, value), value) for key, value in taken.items()}
    renderer.close()
    return best


def page(report: dict[str, Any]) -> str:
    """Return the report as Markdown."""
    where = report["machine"]
    lines = [
        "# Pictures on faces, in milliseconds a view",
        "",
        "The best run of four views, with a colour a vertex and with pictures, filtered trilinearly.",
        "",
        "| renderer | faces | picture | vertex colours | pictures | times | work of all cores | pictures | times |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in report["results"]:
        best = row["best_ms"]
        start = f"| {row['renderer']} | {row['faces']:,} | {row['picture']} |"
        if "absent" in best:
            lines.append(f"{start} absent | | |")
            continue
        cells = []
        for kind in ("", " work"):
            plain, rich = best[f"colours{kind}"], best[f"pictures{kind}"]
            cells.append(f" {plain:,.1f} | {rich:,.1f} | {rich / plain:.2f} |")
        lines.append(start + "".join(cells))
    versions = ", ".join(f"{name} {number}" for name, number in where["versions"].items())
    return "\n".join(
        [
            *lines,
            "",
            f"{where['processor']}, {where['cores']} cores, {where['system']}, Python"
            f" {where['python']}, {versions}; {where['when']}; load average {where['load_before']}"
            f" before, {where['load_after']} after.",
            "",
            f"    {where['command']}",
            "",
        ]
    )


@click.command()
@click.option("--renderers", default="rasteriser,pyrender", show_default=True)
@click.option("--faces", default="150000,1000000,5000000", show_default=True)
@click.option("--pictures", default="640x480,1024x1024", show_default=True, help="Sizes drawn.")
@click.option("--rounds", default=8, show_default=True, help="Runs of each room.")
@click.option("--output", type=click.Path(path_type=Path), help="Writes OUTPUT.json and OUTPUT.md.")
def main(renderers: str, faces: str, pictures: str, rounds: int, output: Path | None) -> None:
    """Measure what pictures cost."""
    report: dict[str, Any] = {"machine": machine(), "results": []}
    report["machine"]["command"] = report["machine"]["command"].replace("render.py", "textures.py")
    for count in map(int, faces.split(",")):
        for name in renderers.split(","):
            for picture in pictures.split(","):
                width, height = (int(side) for side in picture.split("x"))
                best = measured(name, count, (width, height), rounds)
                row = {"renderer": name, "faces": count, "picture": picture, "best_ms": best}
                report["results"].append(row)
                click.echo(json.dumps(row))
    report["machine"]["load_after"] = round(os.getloadavg()[0], 2)
    if output is not None:
        output.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
        output.with_suffix(".md").write_text(page(report))


if __name__ == "__main__":
    main()
