"""What it costs to score candidate moves with the learned ensemble, in several ways that agree.

    python benchmarks/learned_verifier.py --output benchmarks/results/learned_verifier

The sizes are those of `Shape()`, the weights and the features random: neither changes the work. The
frozen features are given, in every way. The ways take turns, so that other work on the machine meets
all of them; a ratio is the median of the ratios of the rounds. Processor time is that of this process
alone, all its threads together.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

ONE_BY_ONE, REPEATED, PLAIN, ONCE, SHARED = (
    "one by one",
    "batched, the view repeated",
    "computed once, a key and a value for every token",
    "computed once",
    "computed once, candidates of one past",
)

WHAT = {
    ONE_BY_ONE: "every history and member by itself, everything anew",
    REPEATED: "one batch a member, the image-and-text branch once for every history",
    PLAIN: "image and text once a member, all histories and members in one batch",
    ONCE: "the same, the poolings' keys and values folded into their one query",
    SHARED: "the same; the histories differ in their last move, and what they share is read once",
}

GOALS = {REPEATED: 4.0, ONE_BY_ONE: 10.0}
"""How many times faster than these computing once is to be on a processor."""

MOST_APART = 1e-6


def measure(candidates: int, members: int, rounds: int, device: str) -> dict[str, Any]:
    """Return the seconds of every way by round, and how far its scores are from those one by one."""
    from render_agent_lab.learned_verifier.ensemble import Ensemble
    from render_agent_lab.learned_verifier.history import Histories
    from render_agent_lab.learned_verifier.shape import Features, Shape
    from render_agent_lab.verifier_benchmark.naive_scoring import (
        plain,
        score_one_by_one,
        score_repeated,
    )

    shape, rng = Shape(), np.random.default_rng(0)
    ensemble = Ensemble.fresh(shape, members, 0).to(device)

    def noise(*size: int) -> np.ndarray:
        return rng.standard_normal(size).astype(np.float32)

    features = Features(noise(shape.patches, shape.features), noise(shape.text, shape.features))
    known = np.ones((candidates, shape.history), bool)
    apart = Histories(noise(candidates, shape.history, shape.action), known)
    one_past = apart.values.copy()
    one_past[:, :-1] = one_past[:1, :-1]
    together = Histories(one_past, known)
    plainly = plain(ensemble)
    ways: dict[str, Callable[[], np.ndarray]] = {
        ONE_BY_ONE: lambda: score_one_by_one(ensemble, features, apart),
        REPEATED: lambda: score_repeated(ensemble, features, apart),
        PLAIN: lambda: plainly.score(features, apart),
        ONCE: lambda: ensemble.score(features, apart),
        SHARED: lambda: ensemble.score(features, together),
    }
    found = {name: way() for name, way in ways.items()}  # the first call of each is not timed
    right = dict.fromkeys(ways, found[ONE_BY_ONE])
    right[SHARED] = score_one_by_one(ensemble, features, together)
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        click.echo(f"round {number + 1} of {rounds}", err=True)
        for name, way in ways.items():
            began, worked = time.perf_counter(), time.process_time()
            way()
            seconds[name].append(time.perf_counter() - began)
            processor[name].append(time.process_time() - worked)
    return {
        "seconds": seconds,
        "processor_seconds": processor,
        "apart": {name: float(np.abs(found[name] - right[name]).max()) for name in ways},
        "numbers_of_a_member": sum(t[0].numel() for t in ensemble.parameters.values()),
    }


def ratio(seconds: Mapping[str, list[float]], slow: str, fast: str = ONCE) -> dict[str, float]:
    """Return how many times longer one way takes than another: the median over rounds, and the range."""
    found = [a / b for a, b in zip(seconds[slow], seconds[fast], strict=True)]
    return {"median": statistics.median(found), "least": min(found), "most": max(found)}


@click.command()
@click.option("--candidates", default=20, show_default=True)
@click.option("--members", default=3, show_default=True)
@click.option("--rounds", default=7, show_default=True)
@click.option("--threads", type=int, help="Of the processor; all cores by default.")
@click.option("--device", default="cpu", show_default=True)
@click.option("--output", help="Write OUTPUT.json and OUTPUT.md.")
def main(
    candidates: int, members: int, rounds: int, threads: int | None, device: str, output: str | None
) -> None:
    """Measure every way side by side; exit 1 where two of them do not agree to 1e-6."""
    import torch

    if threads:
        torch.set_num_threads(threads)
    load = [os.getloadavg()[0]]
    found = measure(candidates, members, rounds, device)
    load.append(os.getloadavg()[0])
    place = device if device == "cpu" else torch.cuda.get_device_name(device)
    record = {
        "command": " ".join(["python", "benchmarks/learned_verifier.py", *sys.argv[1:]]),
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores, {place},"
        f" {torch.get_num_threads()} threads, Python {platform.python_version()},"
        f" torch {version('torch')}",
        "load": load,
        "candidates": candidates,
        "members": members,
        **found,
        "median_seconds": {n: statistics.median(s) for n, s in found["seconds"].items()},
        "times_computed_once": {n: ratio(found["seconds"], n) for n in found["seconds"]},
        "times_computed_once_by_processor": {
            n: ratio(found["processor_seconds"], n) for n in found["seconds"]
        },
    }
    text = table(record)
    click.echo(text)
    if output:
        Path(output + ".json").write_text(json.dumps(record, indent=1) + "\n", "utf-8")
        Path(output + ".md").write_text(text, "utf-8")
    if max(found["apart"].values()) > MOST_APART:
        raise click.ClickException(f"the ways differ by more than {MOST_APART}")


def table(record: Mapping[str, Any]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "# Scores of the learned ensemble",
        "",
        f"{record['candidates']} histories of 10 moves × {record['members']} members of"
        f" {record['numbers_of_a_member'] / 1e6:.1f} M numbers, float32; one view of 576 patches and one"
        " question of 64 tokens, 1024 features each, which are given. Medians of"
        f" {len(record['seconds'][ONCE])} rounds in which the ways take turns; ratios are taken within"
        " each round; in brackets the least and the most of them.",
        "",
        "| way | ms | × computed once | the same by processor time"
        " | largest difference of a score from one by one |",
        "|---|--:|--:|--:|--:|",
    ]
    by_processor = record["times_computed_once_by_processor"]
    for name, times in record["times_computed_once"].items():
        spread = f" ({times['least']:.2f} … {times['most']:.2f})" if name != ONCE else ""
        lines.append(
            f"| {name} | {1000 * record['median_seconds'][name]:.1f} |"
            f" {times['median']:.2f}{spread} | {by_processor[name]['median']:.2f} |"
            f" {record['apart'][name]:.1e} |"
        )
    lines += ["", *(f"- {name}: {what}." for name, what in WHAT.items()), ""]
    if record["machine"].count(", cpu,"):
        for fast in (ONCE, SHARED):
            told = [goal_told(record, slow, fast, goal) for slow, goal in GOALS.items()]
            lines.append(f"Goals of `{fast}`: {'; '.join(told)}.")
        lines.append("")
    first, last = record["load"]
    lines += [
        f"{record['machine']}; {record['when'][:10]}; load of the machine {first:.1f} before and"
        f" {last:.1f} after.",
        "",
        f"    {record['command']}",
        "",
    ]
    return "\n".join(lines)


def goal_told(record: Mapping[str, Any], slow: str, fast: str, goal: float) -> str:
    """Return whether a way is as much faster than another as it is to be, with the figures."""
    times = ratio(record["seconds"], slow, fast)["median"]
    worked = ratio(record["processor_seconds"], slow, fast)["median"]
    verdict = "met" if times >= goal else "not met"
    return f"{goal:.0f} × {slow}: {verdict} ({times:.1f}; by processor time {worked:.1f})"


if __name__ == "__main__":
    main()
