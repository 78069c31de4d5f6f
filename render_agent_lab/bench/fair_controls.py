"""Do the control conditions come out in the expected order?

    python -m render_agent_lab.bench.fair_controls --output render_agent_lab/bench/results/fair_controls.md

The policy `witness` answers with the ground truth once its views have clearly shown the named objects, and guesses
otherwise. Well-chosen views therefore raise its score, and without views of the room it is at chance. The bundled rooms
get more questions than they are shipped with, because a single view rarely shows every named object.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from render_agent.engines.make_engine import EngineFactory
from render_agent.options import ROOMS, RunConfig
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.viewer import Viewer
from render_agent.runs.build import build, make_engine
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.read import RunData
from render_agent.runs.runner import start_run
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import FloatArray
from render_agent.score.comparison import Side, compare
from render_agent.score.summary import OFFICIAL_RAW
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.tasks.rooms import BUNDLED, load_bundled_rooms
from render_agent.views.view_policies.view_policy import ViewContext
from render_agent.visibility.coverage import Surface
from render_agent.visibility.start_pose import parse_start, start_camera
from render_agent_lab.bench.harness import OUTPUT, interval, machine, publish, table
from render_agent_lab.room_generator.questions.balanced import balanced_questions
from render_agent_lab.room_generator.write import write_questions

VIEWS = ("none", "top", "start", "four", "random-walk", "free", "tour", "coverage", "oracle")

# Pairs of --views; the second must score higher.
ORDER = (
    ("none", "start"),
    ("start", "free"),
    ("start", "tour"),
    ("random-walk", "coverage"),
    ("free", "oracle"),
    ("tour", "oracle"),
)

Results = Mapping[str, Any]


def ask_bundled(folder: Path, per_type: int, seed: int = 1) -> Path:
    """Generate questions about each bundled room; return their file, with links to the rooms next to it."""
    folder.mkdir(parents=True, exist_ok=True)
    truths = sorted(BUNDLED.glob("room??.json"))
    for truth in truths:
        for file in (truth, truth.with_suffix(".ply")):
            (folder / file.name).symlink_to(file.resolve())
    path = folder / "questions.jsonl"
    rows = balanced_questions([read_ground_truth(truth) for truth in truths], seed, per_type)
    write_questions(rows, path)
    return path


def run_witness(
    questions: Path, output: Path, engine_factory: EngineFactory = make_engine, **options: Any
) -> tuple[RunData, dict[str, Any]]:
    """Run the witness on a question file; return the run and its results."""
    options |= {"benchmark": str(questions), "output": str(output)}
    config = RunConfig(batch=True, engine="scripted", model="witness", **options)
    run = start_run(config)
    try:
        return RunData(run.path), run.go(NullObserver(), engine_factory)
    finally:
        run.close()


def pool_seeds(name: str, runs: Sequence[Results]) -> Side:
    """Return one side of a comparison: every question with its mean score over runs with different seeds."""
    scores = np.mean([[row["score"] for row in run["questions"]] for run in runs], axis=0)
    rows = [row | {"score": float(s)} for row, s in zip(runs[0]["questions"], scores, strict=True)]
    return Side(name, {"questions": rows})


def compare_pairs(runs: Mapping[str, Sequence[Results]]) -> list[dict[str, Any]]:
    """Return the paired difference in points for every pair of ORDER."""
    entries = []
    for worse, better in ORDER:
        comparison = compare(pool_seeds(worse, runs[worse]), pool_seeds(better, runs[better]))
        entry = comparison["differences"][OFFICIAL_RAW]
        entries.append({"worse": worse, "better": better, "n": comparison["n"], **entry})
    return entries


def answers(results: Results) -> dict[str, str | None]:
    """Return the answers of a run by question id."""
    return {row["question_id"]: row["answer"] for row in results["questions"]}


def seen_shares(views: str, size: tuple[int, int], count: int = 8) -> FloatArray:
    """Return the mean share of the bundled rooms' visible surface seen after each view, the first view included."""
    config = RunConfig(batch=True, benchmark=ROOMS, views=views, max_turns=count + 1)
    questions, scenes, renderer = load_bundled_rooms(), SceneCache(), Rasteriser()
    policy = build(config).view_policy.build(config, questions)
    viewer = Viewer(renderer, size, config.field_of_view)
    shares = []
    for question in {question.scene: question for question in questions}.values():
        scene, space = scenes.get(question), scenes.space(question)
        start = start_camera(scene, renderer, space, parse_start(config.start), viewer.vertical_fov)
        context = ViewContext(scene, space, renderer, start, size)
        surface = Surface.of(scene, space, renderer)
        cameras = [start, *policy.additional_views(question, context).cameras]
        masks = [surface.seen(renderer.draw(scene, camera, *size), camera) for camera in cameras]
        shares.append(np.logical_or.accumulate(masks).mean(axis=1))
    renderer.close()
    means: FloatArray = np.mean(shares, axis=0)
    return means


def surface_table() -> list[str]:
    """Return the table of the share of the rooms seen by number of views."""
    rows = [
        [f"`{views}`", *(f"{100 * share:.0f}" for share in seen_shares(views, (640, 480)))]
        for views in ("random-walk", "tour", "coverage")
    ]
    return [
        "Share of the rooms' visible surface seen after each view, in percent; the first view is the start:",
        "",
        *table(["`--views`", *map(str, range(1, 10))], rows),
    ]


@click.command()
@click.option(
    "--per-type", default=15, show_default=True, help="Questions per room and type (8 rooms)."
)
@click.option("--seeds", default=3, show_default=True, help="Runs per control.")
@click.option("--size", default="128x96", show_default=True, help="View size in pixels.")
@OUTPUT
def main(per_type: int, seeds: int, size: str, output: Path | None) -> None:
    """Run the witness under every control condition, and compare them."""
    width, height = map(int, size.split("x"))
    with tempfile.TemporaryDirectory() as scratch:
        questions = ask_bundled(Path(scratch) / "rooms", per_type)

        def run(views: str, seed: int) -> dict[str, Any]:
            click.echo(f"{views}, seed {seed}", err=True)
            options: dict[str, Any] = {"views": views, "seed": seed, "image_size": (width, height)}
            return run_witness(questions, Path(scratch), **options)[1]

        runs = {views: [run(views, seed) for seed in range(seeds)] for views in VIEWS}
    means = {views: np.mean([r[OFFICIAL_RAW] for r in results]) for views, results in runs.items()}
    lines = [
        f"The bundled rooms, at most {per_type} questions per room and type, {seeds} seeds, views of {size} pixels. VSI-Bench score in percent.",
        "",
        *table(
            ["`--views`", "score"], [[f"`{views}`", f"{mean:.1f}"] for views, mean in means.items()]
        ),
        "",
        "Paired differences in points, with 95 % confidence intervals over rooms:",
        "",
        *table(
            ["comparison", "difference", "95 % CI", "p"],
            [
                [
                    f"`{step['better']}` − `{step['worse']}`",
                    f"{step['difference']:.1f}",
                    interval(step["interval"]),
                    f"{step['p']:.3f}",
                ]
                for step in compare_pairs(runs)
            ],
        ),
    ]
    lines += ["", *surface_table()]
    publish(output, "Controls with the witness", lines, machine("numpy", "numba"))


if __name__ == "__main__":
    main()
