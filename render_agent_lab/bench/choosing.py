"""Do verifiers find the named objects in fewer moves than random choice?

    python -m render_agent_lab.bench.choosing --output render_agent_lab/bench/results/choosing.md
    python -m render_agent_lab.bench.choosing --fresh 24 --seeds 1 --size 160x120 --output render_agent_lab/bench/results/fresh_rooms.md

The policy `seeker` makes random moves until its views have clearly shown every object named in the question. With
`--agent lookahead:K` it proposes K moves per turn and a verifier chooses one, so all verifiers see the same
proposals. They are measured in the bundled rooms, or in --fresh newly generated ones. The learned verifier is trained on
runs with random choice in other generated rooms.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np

from render_agent.runs.log.row import row_of
from render_agent.runs.read import RunData
from render_agent_lab.bench.exploration import (
    estimate,
    explore,
    make_question_file,
    moves_until_found,
    train_verifier,
)
from render_agent_lab.bench.harness import OUTPUT, interval, machine, publish, table
from render_agent_lab.oracles.question_visibility import QuestionVisibility

# Seeds of training rooms and fresh rooms; the bundled rooms use another.
TRAINING_SEED, FRESH_SEED = 777, 9000

FIGURES = ("moves", "found", "decisions", "renders", "tokens")

Row = Mapping[str, Any]


def load_or_explore(folder: Path, *arguments: str, **options: Any) -> RunData:
    """Return the finished run in a folder, or run it now."""
    for results in sorted(folder.glob("*/results.json")):
        return RunData(results.parent)
    return explore(folder, *arguments, **options)


def rows_of(run: RunData) -> dict[str, Row]:
    """Return the result of `measure_dialogues` for a run, cached next to the run folder."""
    cache_file = run.path.with_name("rows.json")
    if not cache_file.is_file():
        cache_file.write_text(json.dumps(measure_dialogues(run)), "utf-8")
    rows: dict[str, Row] = json.loads(cache_file.read_text("utf-8"))
    return rows


def measure_dialogues(run: RunData) -> dict[str, Row]:
    """Return the figures of every question whose named objects have boxes.

    `moves` counts until all objects were clearly seen, `max_turns` if they never were. `decisions` are turns in which a
    verifier chose. `renders` are images rendered. `tokens` are read and generated, including those of verifiers.
    """
    visibility = QuestionVisibility.of(run.parts, run.questions)
    rows: dict[str, Row] = {}
    for state in sorted(run.read_states(visibility.scenes), key=lambda s: s.question.scene):
        if not visibility.things(state.question):
            continue
        table_row, moves = row_of(state), moves_until_found(state, visibility)
        rows[state.id] = {
            "scene": state.question.scene,
            "moves": moves,
            "found": moves < run.config.max_turns,
            "decisions": sum(bool(t.evidence and t.evidence.weighed) for t in state.turns),
            "renders": table_row.renders,
            "tokens": (table_row.tokens_in or 0) + (table_row.tokens_out or 0),
        }
    visibility.close()
    return rows


def over_seeds(runs: Sequence[Mapping[str, Row]]) -> dict[str, dict[str, Any]]:
    """Return the figures of every question, averaged over runs with different seeds."""
    return {
        question_id: {"scene": runs[0][question_id]["scene"]}
        | {name: float(np.mean([run[question_id][name] for run in runs])) for name in FIGURES}
        for question_id in runs[0]
    }


def compare_moves(better: Mapping[str, Row], worse: Mapping[str, Row]) -> dict[str, Any]:
    """Return how many moves one verifier saves over another: paired, with an interval over scenes and an exact p-value."""
    moves_saved = [
        worse[question_id]["moves"] - better[question_id]["moves"] for question_id in worse
    ]
    scenes = [worse[question_id]["scene"] for question_id in worse]
    result = estimate(moves_saved, scenes) or {
        "mean": float(np.mean(moves_saved)),
        "interval": None,
    }
    return {**result, "p": permutation_p(moves_saved, scenes)}


def permutation_p(moves_saved: Sequence[float], scenes: Sequence[str]) -> float:
    """Return the p-value of a permutation test that swaps the sides of whole scenes.

    Exact for up to 16 scenes; with more, 65,536 random swaps are used.
    """
    _, scene_indices = np.unique(list(scenes), return_inverse=True)
    sums = np.bincount(scene_indices, moves_saved)
    if len(sums) <= 16:
        signs = np.array(list(product((-1, 1), repeat=len(sums))))
    else:
        signs = np.random.default_rng(0).choice((-1, 1), (2**16, len(sums)))
        signs[0] = 1
    return float((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean())


@click.command()
@click.option("--candidates", default=4, show_default=True, help="Moves proposed per turn.")
@click.option("--seeds", default=3, show_default=True, help="Runs per verifier.")
@click.option("--size", default="320x240", show_default=True, help="View size in pixels.")
@click.option("--fresh", default=0, help="Use N newly generated rooms instead of the bundled ones.")
@click.option("--training-rooms", default=16, show_default=True, help="Rooms to train on.")
@click.option("--runs", type=click.Path(path_type=Path), help="Store runs here and reuse them.")
@OUTPUT
def main(
    candidates: int,
    seeds: int,
    size: str,
    fresh: int,
    training_rooms: int,
    runs: Path | None,
    output: Path | None,
) -> None:
    """Explore rooms with every verifier, and compare them with random choice."""
    width, height = map(int, size.split("x"))
    options: dict[str, Any] = {"image_size": (width, height)}
    with tempfile.TemporaryDirectory() as scratch:
        folder = runs or Path(scratch)
        head = folder / "training" / "head"
        if not (head / "verifier.json").is_file():
            train_verifier(folder / "training", training_rooms, TRAINING_SEED, **options)
        benchmark = "rooms"
        if fresh:
            benchmark = str(folder / "fresh" / "questions.jsonl")
            if not Path(benchmark).is_file():
                make_question_file(folder / "fresh", fresh, FRESH_SEED, 1)
        verifiers = {name: name for name in ("random", "geometry:unnamed", "geometry")}
        verifiers["learned"] = f"learned:{head}"
        means = {}
        for label, verifier in verifiers.items():
            rows_of_seeds = []
            for seed in range(seeds):
                arguments = (benchmark, f"lookahead:{candidates}", verifier)
                run = load_or_explore(
                    folder / f"{label}-{seed}".replace(":", "-"), *arguments, seed=seed, **options
                )
                rows_of_seeds.append(rows_of(run))
                click.echo(f"{label}, seed {seed}: {len(rows_of_seeds[-1])} questions", err=True)
            means[label] = over_seeds(rows_of_seeds)
    lines = [
        f"{len(means['random'])} questions about {'newly generated' if fresh else 'the bundled'} rooms, {seeds} seeds,"
        f" views of {size} pixels, `--model seeker --agent lookahead:{candidates}`; `learned` was trained in"
        f" {training_rooms} other rooms. Moves: until the views had clearly shown every named object. 95 % confidence"
        " intervals are over rooms; p is from a permutation test over rooms. Renders and tokens are means per question."
        " `geometry` knows the boxes used for measuring; `geometry:unnamed` and `learned` do not.",
        "",
        *table(
            "`--verifier`|moves|all objects found (%)|decisions|renders|tokens|moves saved over random|95 % CI|p".split(
                "|"
            ),
            [table_row(name, rows, means["random"]) for name, rows in means.items()],
        ),
    ]
    publish(
        output,
        "Verifiers compared by moves until objects are found",
        lines,
        machine("numpy", "torch"),
    )


def table_row(name: str, rows: Mapping[str, Row], baseline: Mapping[str, Row]) -> list[object]:
    """Return the row of a verifier, compared with the baseline."""
    mean = {figure: float(np.mean([row[figure] for row in rows.values()])) for figure in FIGURES}
    cells: list[object] = [f"`{name}`", f"{mean['moves']:.2f}", f"{100 * mean['found']:.1f}"]
    decisions = round(mean["decisions"] * len(rows))
    cells += [decisions, f"{mean['renders']:.1f}", f"{mean['tokens']:.0f}"]
    if rows is baseline:
        return [*cells, None, None, None]
    saved = compare_moves(rows, baseline)
    return [
        *cells,
        f"{saved['mean']:+.2f}",
        interval(saved["interval"], "+.2f"),
        f"{saved['p']:.3f}",
    ]


if __name__ == "__main__":
    main()
