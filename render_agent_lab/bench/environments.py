"""Steps per second of `VectorEnvironment`, for episodes side by side.

    python -m render_agent_lab.bench.environments --output render_agent_lab/bench/results/environments.md

The scenes are meshes of the size of ScanNet's. A policy walks at random; every step renders one view and builds the next
messages with their images. Processor time is counted over all threads, so that the result per core does not depend on
how busy the machine is. The kernels that draw run in parallel, but everything else holds Python's global lock. The
projection for 16 cores is therefore the smaller of 16 times the speed per core and the speed of a single core that draws
nothing, which is measured by returning the same frame for every view.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import click
import psutil

from render_agent import Environment, VectorEnvironment
from render_agent.api.scenes import ply
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.viewer import Viewer
from render_agent.runs.turn import TurnTaker
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.views import image_store
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table
from render_agent_lab.bench.render import mesh_room

NUM_SCENES, QUESTIONS_PER_SCENE = 4, 32
HEAD = (
    "episodes",
    "steps per second",
    "times that of the first row",
    "per second of processor time",
    "the same without drawing",
    "on 16 cores (projected)",
    "drawing (% of processor time)",
    "MB per episode",
)


@click.command(help=__doc__)
@click.option("--episodes", multiple=True, type=int, default=(1, 8, 64), show_default=True)
@click.option("--faces", default=150_000, show_default=True, help="Faces of a scene.")
@click.option("--image-size", default="448x448", show_default=True)
@click.option("--seconds", default=20.0, show_default=True, help="Duration of each measurement.")
@OUTPUT
def main(
    episodes: tuple[int, ...], faces: int, image_size: str, seconds: float, output: Path | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        questions = write_questions(Path(folder), faces)
        measured = [measure(questions, count, image_size, seconds) for count in episodes]
        rows = [
            (count, f"{speed:.0f}", f"{speed / measured[0][1]:.2f}", *others)
            for count, speed, *others in measured
        ]
        steps = [
            step_parts(questions, image_size, seconds / 2, record)
            for record in (None, Path(folder, "runs"))
        ]
    lines = [
        f"{NUM_SCENES} rooms of {faces:,} faces, views of {image_size} pixels, nine turns per episode.",
        "",
        *table(HEAD, rows),
        "",
        "Processor time of a step of a single episode, in milliseconds, with one drawing thread:",
        "",
        *table(("part", "not recorded", "recorded"), _part_rows(*steps)),
        "",
        "Without recording, images are not encoded, and visibility is measured only for rewards that need it. What is left is"
        " the view itself, whose time is in [render.md](render.md), and the observation, which contains copies of the images"
        " of all turns.",
        "",
        "The speed on 16 cores was not measured. It is projected from this machine: the smaller of 16 times the steps per"
        " second of processor time, and the same without drawing, because only drawing runs outside Python's global lock.",
        "",
        "habitat-sim publishes 1,987 frames per second at 256 x 256 and 848 at 512 x 512 pixels on a Titan Xp GPU, in one"
        " process, without any dialogue.",
    ]
    publish(output, "Environments", lines, machine("numpy", "numba", "pillow"))


def write_questions(folder: Path, faces: int) -> Path:
    """Write the scans and a file of questions about them; return that file."""
    rows = []
    for number in range(NUM_SCENES):
        scene = mesh_room(faces)
        name = f"room{number}"
        (folder / f"{name}.ply").write_bytes(ply(scene.points, scene.colours, scene.faces))
        rows += [
            {
                "id": f"{name}-{index}",
                "dataset": "rooms",
                "scene_name": name,
                "question_type": "object_counting",
                "question": "How many table(s) are in this room?",
                "ground_truth": "2",
            }
            for index in range(QUESTIONS_PER_SCENE)
        ]
    random.Random(0).shuffle(rows)
    path = folder / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def measure(
    questions: Path, episodes: int, image_size: str, seconds: float
) -> tuple[int, float, *tuple[str, ...]]:
    """Return the number of episodes, the steps per second, and the other cells of the table."""
    with VectorEnvironment(episodes, questions, image_size=image_size) as envs:
        _read_scans(envs)
        before = psutil.Process().memory_info().rss
        drawn = walk(envs, seconds)
        growth = max(0, psutil.Process().memory_info().rss - before)
        viewer = envs.world.viewer
        assert viewer is not None
        renderer = viewer.renderer
        frame = renderer.draw(envs.envs[0].state.scene, Camera((0, 0, 1)), *_size(image_size))
        with mock.patch.object(renderer, "draw", return_value=frame):
            undrawn = walk(envs, seconds / 2)
    return (
        episodes,
        drawn.per_second,
        f"{drawn.per_processor_second:.0f}",
        f"{undrawn.per_processor_second:.0f}",
        f"{min(16 * drawn.per_processor_second, undrawn.per_processor_second):.0f}",
        f"{100 * (1 - drawn.per_processor_second / undrawn.per_processor_second):.0f}",
        f"{growth / episodes / 2**20:.1f}",
    )


# part of a step -> the method that does it
PARTS: dict[str, tuple[object, str]] = {
    "render": (Viewer, "draw"),
    "encode the image": (image_store, "encode_png"),
    "free space": (FreeSpace, "advance"),
    "prompt": (TurnTaker, "_messages"),
    "observation": (Environment, "_observation"),
}


def step_parts(
    questions: Path, image_size: str, seconds: float, record: Path | None
) -> dict[str, float]:
    """Return the milliseconds of processor time per step of each part, and of all other code."""
    spent = dict.fromkeys(PARTS, 0.0)
    with (
        ExitStack() as stack,
        VectorEnvironment(1, questions, image_size=image_size, record=record) as envs,
    ):
        for name, (owner, method) in PARTS.items():
            timed = _timed(getattr(owner, method), name, spent)
            stack.enter_context(mock.patch.object(owner, method, timed))
        _read_scans(envs)
        renderer = envs.world.viewer.renderer if envs.world.viewer else None
        assert isinstance(renderer, Rasteriser)
        renderer.threads = 1  # so that the calling thread draws
        spent.update(dict.fromkeys(PARTS, 0.0))
        speed = walk(envs, seconds)
    parts = {name: 1000 * total / speed.steps for name, total in spent.items()}
    total = 1000 / speed.per_processor_second
    return {**parts, "everything else": total - sum(parts.values()), "total": total}


def _read_scans(envs: VectorEnvironment) -> None:
    """Read all scans, build their blocks, and start an episode in every environment."""
    for number in range(NUM_SCENES):
        envs.envs[0].reset(options={"id": f"room{number}-0"})
    envs.reset(seed=0)


def _timed(function: Callable[..., Any], name: str, spent: dict[str, float]) -> Callable[..., Any]:
    """Return a function that adds the processor time of its thread to `spent`."""

    def timed(*args: Any, **kwargs: Any) -> Any:
        started_at = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[name] += time.thread_time() - started_at

    return timed


def _part_rows(*columns: dict[str, float]) -> list[list[str]]:
    return [[name, *(f"{column[name]:.2f}" for column in columns)] for name in columns[0]]


@dataclass(frozen=True)
class Speed:
    """Steps per second, and per second of processor time."""

    steps: int
    per_second: float
    per_processor_second: float


def walk(envs: VectorEnvironment, seconds: float) -> Speed:
    """Step for some seconds and return the speed."""
    rng = random.Random(0)
    started_at, cpu_started_at, steps = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - started_at < seconds:
        envs.step(_replies(rng, envs.num_envs))
        steps += envs.num_envs
    seconds = time.perf_counter() - started_at
    cpu_seconds = time.process_time() - cpu_started_at
    return Speed(steps, steps / seconds, steps / cpu_seconds)


def _size(text: str) -> tuple[int, int]:
    width, height = map(int, text.split("x"))
    return width, height


def _replies(rng: random.Random, count: int) -> list[dict[str, float]]:
    return [
        {
            "rotation_angle_degrees": rng.uniform(-180, 180),
            "forward_meters": rng.choice([0, 0.5, 1]),
        }
        for _ in range(count)
    ]


if __name__ == "__main__":
    main()
