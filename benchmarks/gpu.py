"""Schedules, reuse, batch sizes, divergence and real lack of memory on one GPU, within a time limit.

    python benchmarks/gpu.py --output results --minutes 9.5

Models have published shapes and random weights, made on the GPU. What needs one question after the
other is measured over a few questions (a multiple of 16, which is two-phase's batch), as its time is
proportional to what they write; ratios are those of tokens written a second. Steps are done in order
of importance until the time is up; what was left out is said. Writes gpu.json and gpu.md after every
variant.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from render_agent.config import RunConfig
from render_agent.engines.transformers.random_model import random_model
from render_agent.questions.selection import choose_questions
from render_agent_lab.bench.command import about
from render_agent_lab.bench.compared_engines import Engines, tokenizing
from render_agent_lab.bench.figures import summary
from render_agent_lab.bench.measure import Bench
from render_agent_lab.bench.report import circumstances
from render_agent_lab.bench.script import Lengths, ScriptedWalk
from render_agent_lab.bench.variants import Variant

BIG, LESS = "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-2B-Instruct"
FIGURES = (
    "seconds questions_an_hour calls prefilled_over_first_seen cached_share running_over_limit"
    " waiting_for_views waiting_share peak_bytes questions_that_differ first_replies_that_differ"
    " failed events"
).split()


@dataclass(frozen=True)
class Step:
    """Some variants with one model. own: the model's own words. crowded: memory is taken away in between."""

    name: str
    model: str
    questions: int
    ways: Sequence[tuple[str, str, int | str]]
    own: bool = False
    crowded: bool = False


def steps(few: int, many: int, sizes: Sequence[int | str]) -> list[Step]:
    """Return what is measured, the most important first."""
    best = [("refill", "keys", size) for size in sizes]
    return [
        Step("8B, schedules", BIG, many, [*best, ("lockstep", "keys", sizes[0])]),
        Step(
            "8B, one after the other", BIG, few, [("sequential", "none", 1), ("two-phase", "none", 16)]
        ),
        Step("8B, memory runs out", BIG, many, [("refill", "keys", sizes[0])], crowded=True),
        Step("8B, without reuse", BIG, many, [("refill", "none", sizes[0])]),
        Step("2B, schedules", LESS, many, [*best, ("refill", "none", sizes[0])]),
        Step(
            "2B, one after the other", LESS, few, [("sequential", "none", 1), ("two-phase", "none", 16)]
        ),
        Step(
            "2B, in its own words",
            LESS,
            4 * few,
            [("sequential", "none", 1), ("refill", "none", sizes[0]), ("refill", "keys", sizes[0])],
            own=True,
        ),
    ]  # fmt: skip


@contextlib.contextmanager
def crowd(model: Any, calls: int, spare: int) -> Iterator[None]:
    """Take away all of the GPU's memory but `spare` bytes for `calls` calls of the model, once.

    Elsewhere than on a GPU such a call is refused instead.
    """
    import torch

    count, ballast = 0, []

    def before(*_: Any) -> None:
        nonlocal count
        count += 1
        if model.device.type != "cuda":
            if count == calls:
                raise torch.OutOfMemoryError("refused for the measurement")
        elif count == calls:
            torch.cuda.empty_cache()
            free = torch.cuda.mem_get_info(model.device)[0] - spare
            ballast.append(torch.empty(max(0, free), dtype=torch.uint8, device=model.device))
        elif count == 2 * calls:
            ballast.clear()
            torch.cuda.empty_cache()

    hook = model.register_forward_pre_hook(before)
    try:
        yield
    finally:
        hook.remove()
        ballast.clear()


class Measurement:
    """The steps so far, in files that are written after each."""

    def __init__(self, output: Path, config: RunConfig, seconds: float, only: str | None) -> None:
        self.output, self.config, self.only = output, config, only
        self.until = time.perf_counter() + seconds
        self.done: list[dict[str, Any]] = []
        self.left_out: list[str] = []
        self.model: tuple[str, Any] | None = None
        self.said: dict[str, Any] = {}

    def load(self, name: str) -> Any:
        """Return a model with random weights; the one before goes."""
        name = self.only or name
        if self.model is None or self.model[0] != name:
            self.model = None
            began = time.perf_counter()
            made = random_model(name, self.config.device, self.config.dtype)
            click.echo(f"{name} made in {time.perf_counter() - began:.1f} s", err=True)
            self.model = (name, made)
        return self.model[1]

    def take(self, step: Step, lengths: Lengths) -> None:
        """Measure one step, as many of its variants as there is time for."""
        pretrained = self.load(step.model)
        self.said[step.model] = about(pretrained, self.only or step.model)
        turns = 2 if step.own else lengths.turns[1]
        config = replace(self.config, limit=step.questions, max_turns=turns)
        if step.own:
            config = replace(config, max_new_tokens=48)
        script = ScriptedWalk(choose_questions(config), lengths, tokenizing(pretrained))
        engines = Engines(config, pretrained, None if step.own else script)
        bench = Bench(config, engines, lambda words: click.echo(words, err=True))
        reference = None
        for schedule, reuse, size in step.ways:
            variant = Variant("transformers", schedule, reuse, size, config.renderer)
            if time.perf_counter() > self.until:
                self.left_out.append(f"{step.name}: {variant.name}")
                continue
            with contextlib.ExitStack() as around:
                if step.crowded:
                    around.enter_context(crowd(pretrained.model, calls=40, spare=2 << 30))
                trial = bench.measure(variant, config)
            reference = reference or trial.work
            row = summary([trial], {}, reference)
            self.done.append({"step": step.name, "model": self.only or step.model, **row})
            click.echo(f"{step.name}: {variant.name}: {row['questions_an_hour']} an hour", err=True)
            self.write()

    def write(self) -> None:
        """Write what is measured so far."""
        found = {
            **circumstances(shlex.join(["python", *sys.argv]), {}, models=self.said),
            "steps": self.done,
            "left_out": self.left_out,
        }
        self.output.mkdir(parents=True, exist_ok=True)
        (self.output / "gpu.json").write_text(json.dumps(found, indent=1) + "\n")
        (self.output / "gpu.md").write_text(self.page(found))

    def page(self, found: dict[str, Any]) -> str:
        """Return the figures as a page, each model's ratios to its own sequential and two-phase."""
        heads = ["step", "schedule", "reuse", "B", "× seq.", "× two-ph.", *FIGURES]
        lines = ["# On a GPU", "", f"`{found['command']}`", "", json.dumps(self.said), ""]
        lines += ["| " + " | ".join(heads) + " |", "|" + "--|" * len(heads)]
        for row in self.done:
            cells = [row["step"], row["schedule"], row["reuse"], f"{row['batch_size']} ({row['limit']})"]  # fmt: skip
            cells += [self.times(row, "sequential"), self.times(row, "two-phase")]
            lines.append("| " + " | ".join([*cells, *(str(row[name]) for name in FIGURES)]) + " |")
        return "\n".join([*lines, "", *(f"left out: {name}" for name in self.left_out), ""])

    def times(self, row: dict[str, Any], schedule: str) -> str:
        """Return how many times faster a row writes than a schedule without reuse."""
        same = [
            other
            for other in self.done
            if (other["model"], other["schedule"], other["reuse"])
            == (row["model"], schedule, "none")
            and ("own words" in other["step"]) == ("own words" in row["step"])
        ]
        return f"{rate(row) / rate(same[0]):.1f}" if same else "–"


def rate(row: dict[str, Any]) -> float:
    """Return the tokens written a second: questions differ in their turns, and few have another mean."""
    return float(row["tokens_written"] / row["seconds"])


@click.command()
@click.option("--output", type=click.Path(path_type=Path), required=True)
@click.option("--minutes", default=9.5, show_default=True, help="No variant begins later.")
@click.option("--device", default="cuda", show_default=True)
@click.option("--dtype", default="auto", show_default=True)
@click.option("--model", help="One shape instead of all.")
@click.option("--few", default=16, show_default=True, help="Questions one after the other.")
@click.option("--many", default=128, show_default=True, help="Questions side by side.")
@click.option("--sizes", default="64,128,auto", show_default=True, help="Batch sizes.")
@click.option("--reply-tokens", default=60.0, show_default=True)
@click.option("--image-size", default="640x480", show_default=True)
def main(output: Path, minutes: float, model: str | None, **given: Any) -> None:
    """Measure one GPU within a time limit."""
    width, _, height = given["image_size"].partition("x")
    config = RunConfig(
        batch=True,
        benchmark="rooms",
        shuffle=True,
        no_guide=True,
        max_turns=9,
        device=given["device"],
        dtype=given["dtype"],
        image_size=(int(width), int(height)),
    )
    sizes = [int(size) if size.isdecimal() else size for size in given["sizes"].split(",")]
    lengths = Lengths((1, 9), given["reply_tokens"], most=config.max_new_tokens)
    measurement = Measurement(output, config, 60 * minutes, model)
    # What is compiled or loaded at first use is not measured.
    warm = Step("warm-up", BIG, 2, [("refill", "keys", 2), ("refill", "none", 2)])
    measurement.take(warm, Lengths((1, 2), 8))
    measurement.done.clear()
    for step in steps(given["few"], given["many"], sizes):
        measurement.take(step, lengths)
    measurement.write()


if __name__ == "__main__":
    main()
