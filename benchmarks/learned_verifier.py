"""The cost of scoring candidate moves with the learned ensemble, in several ways that agree.

    python -m benchmarks.learned_verifier --threads 1 --output benchmarks/results/learned_verifier.md

Weights and features are random, of the sizes of `Shape()`. The ways take turns, so that other load on the machine affects
all of them alike; a ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

from benchmarks.harness import OUTPUT, machine, publish, table

Score = Callable[[], np.ndarray]


def ways_to_score(candidates: int, members: int, device: str) -> dict[str, Score]:
    """Return every way to score the same histories of moves, the plainest first."""
    from render_agent_lab.learned_verifier.ensemble import Ensemble
    from render_agent_lab.learned_verifier.history import Histories
    from render_agent_lab.learned_verifier.shape import Features, Shape
    from render_agent_lab.verifier_benchmark.naive_scoring import score_one_by_one, score_repeated

    shape, rng = Shape(), np.random.default_rng(0)
    ensemble = Ensemble.fresh(shape, members, 0).to(device)

    def noise(*size: int) -> np.ndarray:
        return rng.standard_normal(size).astype(np.float32)

    features = Features(noise(shape.patches, shape.features), noise(shape.text, shape.features))
    known = np.ones((candidates, shape.history), bool)
    histories = Histories(noise(candidates, shape.history, shape.action), known)
    return {
        "one by one": lambda: score_one_by_one(ensemble, features, histories),
        "batched, the view repeated": lambda: score_repeated(ensemble, features, histories),
        "computed once": lambda: ensemble.score(features, histories),
    }


@click.command()
@click.option("--candidates", default=20, show_default=True)
@click.option("--members", default=3, show_default=True)
@click.option("--rounds", default=7, show_default=True)
@click.option("--threads", type=int, help="Threads of PyTorch; all cores by default.")
@click.option("--device", default="cpu", show_default=True)
@OUTPUT
def main(
    candidates: int,
    members: int,
    rounds: int,
    threads: int | None,
    device: str,
    output: Path | None,
) -> None:
    """Measure every way side by side; they must agree to 1e-6."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    ways = ways_to_score(candidates, members, device)
    scores = [way() for way in ways.values()]  # the first call is not timed
    apart = max(float(np.abs(found - scores[0]).max()) for found in scores)
    if apart > 1e-6:
        raise click.ClickException(f"the ways differ by {apart}")
    seconds = np.empty((rounds, len(ways)))
    for one in seconds:
        for column, way in enumerate(ways.values()):
            began = time.perf_counter()
            way()
            one[column] = time.perf_counter() - began
    rows = [
        [
            name,
            f"{1000 * statistics.median(seconds[:, i]):.1f}",
            f"{np.median(seconds[:, i] / seconds[:, -1]):.1f}",
        ]
        for i, name in enumerate(ways)
    ]
    place = device if device == "cpu" else torch.cuda.get_device_name(device)
    lines = [
        f"{candidates} histories of 10 moves × {members} members, float32, on {place} with {torch.get_num_threads()}"
        f" threads; one view of 576 patches and one question of 64 tokens. Scores agree to {apart:.0e}.",
        "",
        *table(["way", "ms", "× computed once"], rows),
    ]
    publish(output, "Scoring with the learned ensemble", lines, machine("numpy", "torch"))


if __name__ == "__main__":
    main()
