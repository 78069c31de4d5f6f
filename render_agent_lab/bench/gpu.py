"""Full GPU benchmark, from a checkout in about eight minutes.

    python -m render_agent_lab.bench.gpu --output render_agent_lab/bench/results/gpu.md
    python -m render_agent_lab.bench.gpu --reproducible --output render_agent_lab/bench/results/gpu_reproducible.md

Models have published shapes and random weights, created on the GPU. Unless noted, replies are forced, so that every
schedule does the same work. Sequential schedules are measured on a few questions with few turns, because their time is
proportional to the tokens generated; ratios compare tokens per second, and fewer turns make them smaller. The lower bound
is the minimum time for the same work at the copy and matrix-product rates measured here. A second table has the shares of
time by activity: what is neither reading nor decoding is idle time of the GPU. Steps run in order of importance until the
time is up; the first line of the page lists those that were skipped. The page is rewritten after every step.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import threading
import time
import traceback
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import click

from render_agent import __version__
from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.transformers import scheduler
from render_agent.engines.transformers.fixed_shapes import SHAPES, fixed_shapes
from render_agent.engines.transformers.make_transformers import Transformers
from render_agent.engines.transformers.prefill import prefill
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.options import AUTO, RunConfig
from render_agent.runs.build import build
from render_agent_lab.bench.command import model_summary
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table
from render_agent_lab.bench.schedules.compared_engines import EngineFactory, make_tokenize
from render_agent_lab.bench.schedules.figures import summarize_trials
from render_agent_lab.bench.schedules.lower_bound import measure_rates
from render_agent_lab.bench.schedules.measure import Bench
from render_agent_lab.bench.schedules.script import LengthDistributions, ScriptedWalk
from render_agent_lab.bench.schedules.variants import Variant
from render_agent_lab.random_models.random_model import random_model

LARGE_MODEL, SMALL_MODEL = "Qwen/Qwen3-VL-8B-Instruct", "Qwen/Qwen3-VL-2B-Instruct"
FORCED_LENGTHS = LengthDistributions((1, 9), 60.0)
SHORT_LENGTHS = LengthDistributions((1, 5), 60.0)
FILLED_SECONDS = 3.0
REPRODUCIBLE = ", reproducible"  # end of the names of steps with `--reproducible on`
COLUMNS = (
    "seconds questions_an_hour tokens_a_second times_sequential times_two_phase floor_share busy"
    " peak_gb prefilled_over_first_seen failed questions_that_differ events"
).split()
ACTIVITIES = (
    "reading reading_ahead decoding awaiting_prompts outside_engine tokens_read_ahead".split()
)


@dataclass(frozen=True)
class Default(Variant):
    """The default schedule of a run: four batched turns, then as many questions as fit."""

    def options(self, max_turns: int) -> dict[str, Any]:
        """Return the options of a run that make this schedule."""
        return {"max_batched_turns": min(4, max_turns), "finish_together": AUTO, "batch_size": AUTO}


@dataclass(frozen=True)
class Step:
    """One run."""

    name: str
    questions: int
    schedule: str = "refill"
    reuse: str = "keys"
    batch_size: int | str = AUTO
    lengths: LengthDistributions | None = FORCED_LENGTHS
    """Lengths of forced replies; None if the model generates its own."""
    model: str = LARGE_MODEL
    dtype: str = "auto"
    guided: bool = False
    fill_memory: bool = False
    reproducible: bool = False
    own_turns: int = 2
    """Turns if the model generates its own replies."""
    killed_after: tuple[int, ...] = ()
    """Numbers of turns after which the run is killed and resumed."""
    call_tokens: int = 0
    """Tokens per prefill call of a reproducible run; 0 for the program's choice."""


def steps(concurrent: int) -> list[Step]:
    """Return the steps, most important first."""
    float32: dict[str, Any] = {"lengths": None, "model": SMALL_MODEL, "dtype": "float32"}
    own: dict[str, Any] = {"questions": concurrent // 2, "lengths": None}
    return [
        Step("automatic batch size", concurrent),
        Step("four batched turns (the default)", concurrent, "default"),
        Step("generated replies", **own),
        Step("generated replies, JSON-constrained", **own, guided=True),
        Step("generated replies, again", **own),
        Step("generated replies, JSON-constrained, again", **own, guided=True),
        Step("memory temporarily filled", concurrent, fill_memory=True),
        Step("two questions", 2),
        Step("sequential", 2, "sequential", "none", 1, SHORT_LENGTHS),
        *[
            Step(f"batch size {rows}", max(48, min(concurrent, rows)), batch_size=rows)
            for rows in (16, 64)
        ],
        *[Step(f"batch size {rows}", concurrent, batch_size=rows) for rows in (128, 256)],
        Step("2B", concurrent, model=SMALL_MODEL),
        Step("two questions, 2B", 2, model=SMALL_MODEL),
        Step("generated replies, float32, sequential", 6, "sequential", "none", 1, **float32),
        Step("generated replies, float32, concurrent", 6, **float32),
        Step("generated replies, float32, four batched turns", 6, "default", **float32),
        Step("two-phase", 16, "two-phase", "none", 16, SHORT_LENGTHS),
    ]


@contextlib.contextmanager
def filled_memory(device: Any, prefills: int) -> Iterator[None]:
    """Allocate all free GPU memory for some seconds, once, after a number of prefills; on a CPU, one call fails."""
    import torch

    read, count, ballast = Scheduler.read, 0, []
    no_fault: Any = contextlib.nullcontext()

    def fill_and_read(self: Scheduler) -> None:
        nonlocal count
        count += 1
        if count == prefills and device.type == "cuda":
            torch.cuda.empty_cache()
            with contextlib.suppress(torch.OutOfMemoryError):
                while True:
                    ballast.append(torch.empty(1 << 26, dtype=torch.uint8, device=device))
            threading.Timer(FILLED_SECONDS, ballast.clear).start()
        fails = count == prefills and device.type != "cuda"
        with mock.patch.object(scheduler, "prefill", _out_of_memory) if fails else no_fault:
            read(self)

    Scheduler.read = fill_and_read  # type: ignore[method-assign]
    try:
        yield
    finally:
        Scheduler.read = read  # type: ignore[method-assign]
        ballast.clear()


def _out_of_memory(*args: Any) -> None:
    raise MemoryError


class ActivityMonitor:
    """Measures the time that the engine's thread spends per activity, and the prompt tokens read ahead of their requests.

    Reading and decoding keep the GPU busy. Elsewhere it idles: while `ready` awaits prompts, and outside the engine, where
    views are rendered and turns are logged.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.tokens: Counter[str] = Counter()
        self._activity = ""

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Measure all engines within the context."""
        ready = ContinuousEngine.ready

        def counted(model: Any, cache: Any, entries: Sequence[Any], *more: Any) -> Any:
            self.tokens[self._activity] += sum(len(entry.ids) - entry.start for entry in entries)
            return prefill(model, cache, entries, *more)

        def timed_ready(engine: Any, timeout: float | None = None) -> Iterator[Any]:
            replies = ready(engine, timeout)
            advance = self._timed("ready", lambda: next(replies, None))
            while (pair := advance()) is not None:
                yield pair

        with contextlib.ExitStack() as patches:
            patches.enter_context(mock.patch.object(scheduler, "prefill", counted))
            patches.enter_context(mock.patch.object(ContinuousEngine, "ready", timed_ready))
            for name in ("read", "read_ahead", "step"):
                timed = self._timed(name, getattr(Scheduler, name))
                patches.enter_context(mock.patch.object(Scheduler, name, timed))
            yield

    def shares(self, total: float) -> dict[str, float]:
        """Return the share of `total` seconds by activity, and the share of tokens read ahead."""
        seconds = self.seconds
        busy = seconds["read"] + seconds["read_ahead"] + seconds["step"]
        times = {
            "reading": seconds["read"],
            "reading_ahead": seconds["read_ahead"],
            "decoding": seconds["step"],
            "awaiting_prompts": seconds["ready"] - busy,
            "outside_engine": total - seconds["ready"],
        }
        shares = {name: round(value / total, 3) for name, value in times.items()}
        tokens = self.tokens["read_ahead"] / max(1, self.tokens.total())
        return shares | {"tokens_read_ahead": round(tokens, 3)}

    def _timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any) -> Any:
            before, self._activity = self._activity, name
            started_at = time.perf_counter()
            try:
                return call(*args)
            finally:
                self.seconds[name] += time.perf_counter() - started_at
                self._activity = before

        return timed


class GpuMonitor:
    """Samples GPU utilization and peak device memory while a run lasts."""

    def __init__(self, cuda: bool) -> None:
        self.busy: list[float] = []
        self.peak_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        if cuda:
            self._thread.start()

    def _watch(self) -> None:
        import torch

        while not self._stop.wait(0.1):
            free, total = torch.cuda.mem_get_info()
            self.peak_bytes = max(self.peak_bytes, total - free)
            with contextlib.suppress(Exception):  # utilization needs NVML
                self.busy.append(torch.cuda.utilization())

    def stop(self) -> dict[str, Any]:
        """Return the measurements."""
        self._stop.set()
        busy = round(statistics.mean(self.busy) / 100, 3) if self.busy else None
        return {"busy": busy, "peak_gb": round(self.peak_bytes / 1e9, 1)}


def reproducible_steps(concurrent: int) -> list[Step]:
    """Return steps with `--reproducible on`, whose transcripts must all be equal, and the same schedules without it."""
    own: dict[str, Any] = {"questions": concurrent // 2, "lengths": None, "own_turns": 4}
    fixed = own | {"reproducible": True}
    return [
        Step("automatic rows, reproducible", **fixed),
        Step("automatic rows", **own),
        Step("default schedule, reproducible", schedule="default", **fixed),
        Step("default schedule", schedule="default", **own),
        Step("16 rows, reproducible", batch_size=16, **fixed),
        Step("5 rows, reproducible", batch_size=5, **fixed),
        Step(
            "killed and resumed twice, reproducible",
            killed_after=(concurrent // 2, concurrent // 2),
            **fixed,
        ),
        Step("memory temporarily filled, reproducible", fill_memory=True, **fixed),
        # Another size has other transcripts.
        *[
            Step(f"automatic rows, calls of {n} tokens", call_tokens=n, **fixed)
            for n in (1024, 4096)
        ],
        Step("16 rows", batch_size=16, **own),
        Step("5 rows", batch_size=5, **own),
    ]


def reproducibility(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return how many transcripts of reproducible steps differ, and their speed relative to ordinary steps."""
    steps = {row["step"]: row for row in rows if row["step"].endswith(REPRODUCIBLE)}
    if not steps:
        return []
    speeds = {row["step"]: row["tokens_a_second"] for row in rows}
    ratios = [
        f"{base}: {row['tokens_a_second'] / speeds[base]:.0%}"
        for name, row in steps.items()
        if (base := name.removesuffix(REPRODUCIBLE)) in speeds
    ]
    differ = max(row["questions_that_differ"] for row in steps.values())
    return [
        f"{differ} of {max(row['questions'] for row in steps.values())} transcripts differ between {len(steps)}"
        f" reproducible runs. Their tokens per second relative to ordinary runs: {'; '.join(ratios) or '–'}."
    ]


class Measurement:
    """The completed steps; the page is rewritten after each."""

    def __init__(
        self, output: Path | None, config: RunConfig, seconds: float, only_model: str | None
    ) -> None:
        self.output, self.config, self.only_model = output, config, only_model
        self.deadline = time.perf_counter() + seconds
        self.rows: list[dict[str, Any]] = []
        self.skipped: list[str] = []
        self.facts: dict[str, Any] = {}
        self.model: tuple[str, str, Any] | None = None
        self.transcripts: dict[str, Any] = {}

    def load(self, name: str, dtype: str) -> Any:
        """Return a model with random weights, replacing the previous one."""
        name = self.only_model or name
        if self.model is None or self.model[:2] != (name, dtype):
            self.model = None
            model = random_model(name, self.config.device, dtype)
            self.model = (name, dtype, model)
            summary = model_summary(model, name)
            rates = measure_rates(str(model.model.device), model.model.dtype)
            self.facts[f"{name}, {summary['dtype']}"] = {**summary, **asdict(rates)}
        return self.model[2]

    def measure(self, step: Step) -> None:
        """Measure one step."""
        pretrained = self.load(step.model, step.dtype)
        generates = step.lengths is None
        turns = step.own_turns if generates else (step.lengths or FORCED_LENGTHS).turns[1]
        config = replace(
            self.config, limit=step.questions, max_turns=turns, no_guide=not step.guided
        )
        if generates:
            config = replace(config, max_new_tokens=48)
        questions = build(config).questions()
        script = (
            None
            if generates
            else ScriptedWalk(questions, step.lengths or FORCED_LENGTHS, make_tokenize(pretrained))
        )
        bench = Bench(
            config, EngineFactory(config, pretrained, script, step.reproducible), lambda line: None
        )
        kind = Default if step.schedule == "default" else Variant
        variant = kind("transformers", step.schedule, step.reuse, step.batch_size)
        with contextlib.ExitStack() as patches:
            device = pretrained.model.device.type
            if step.call_tokens:
                shapes = replace(fixed_shapes(pretrained.model, 0), tokens=step.call_tokens)
                patches.enter_context(mock.patch.dict(SHAPES, {device: shapes}))
            if step.fill_memory:
                patches.enter_context(filled_memory(pretrained.model.device, prefills=12))
            activity = ActivityMonitor()
            patches.enter_context(activity.installed())
            monitor = GpuMonitor(device == "cuda")
            trial = bench.measure(variant, config, step.killed_after)
        workload = f"{step.model} {step.dtype} {generates} {turns} {step.questions} {step.guided} {step.reproducible} {step.call_tokens}"
        reference = self.transcripts.setdefault(workload, trial.work)
        row = summarize_trials([trial], {}, reference)
        row |= {"step": step.name, "model": self.only_model or step.model, **monitor.stop()}
        row |= activity.shares(row["seconds"])
        row["tokens_a_second"] = round(row["tokens_written"] / row["seconds"], 1)
        self.rows.append(row)
        reported = {
            name: row.get(name) for name in [*COLUMNS, *ACTIVITIES] if row.get(name) is not None
        }
        click.echo(f"{step.name}: {json.dumps(reported)}", err=True)

    def latency(self, model: str) -> None:
        """Measure two concurrent questions on an otherwise idle engine: an image and a 60-token reply per turn."""
        pretrained = self.load(model, "auto")
        engines = EngineFactory(self.config, pretrained, lambda request: "x " * 90)  # type: ignore[arg-type]
        variant = Variant("transformers", "refill", "keys", 8)
        started_at = time.perf_counter()
        engine = engines.make(variant, self.config, [])
        ready_seconds = time.perf_counter() - started_at
        first_token_seconds, turn_seconds = [], []
        for _ in range(3):
            started_at = time.perf_counter()
            engine.generate([_request("first", [], 1)])
            first_token_seconds.append(time.perf_counter() - started_at)
            engine.retire("first")
            dialogues: dict[str, list[Any]] = {"a": [], "b": []}
            for _ in range(6):
                requests = [_request(*pair, 60) for pair in dialogues.items()]
                started_at = time.perf_counter()
                engine.generate(requests)
                turn_seconds.append(time.perf_counter() - started_at)
                for request in requests:
                    dialogues[request.dialogue_id] = [*request.messages, chat.assistant("x")]
            for name in dialogues:
                engine.retire(name)
        engine.close()
        self.facts[f"{self.only_model or model}, latency"] = {
            "engine_ready_seconds": round(ready_seconds, 2),
            "first_token_seconds": round(statistics.median(first_token_seconds), 3),
            "seconds_a_turn_of_two": round(statistics.median(turn_seconds), 3),
        }

    def long_run(self, count: int) -> None:
        """Run `count` dialogues of three turns with a new image per turn, sampling memory meanwhile."""
        pretrained = self.load(LARGE_MODEL, "auto")
        engines = EngineFactory(self.config, pretrained, lambda request: "x " * 12)  # type: ignore[arg-type]
        variant = Variant("transformers", "refill", "keys", AUTO)
        engine = engines.make(variant, self.config, [])
        waiting, failed, completed = list(range(count)), 0, 0
        turns: dict[str, list[Any]] = {}
        samples: list[tuple[float, float]] = []
        started_at = time.perf_counter()
        while waiting or turns:
            while waiting and len(turns) < 128:
                turns[str(waiting.pop())] = []
                engine.submit([_request(*list(turns.items())[-1])])
            for request, reply in engine.ready():
                failed += reply.error is not None
                name, messages = request.dialogue_id, list(request.messages)
                turns[name] = [*messages, chat.assistant("x")]
                if len(messages) < 5:
                    engine.submit([_request(name, turns[name])])
                    continue
                engine.retire(name)
                del turns[name]
                completed += 1
                if completed % (count // 10 or 1) == 0:
                    samples.append(_memory_in_use(pretrained.model.device))
        self.facts["1,000 dialogues"] = {
            "seconds": round(time.perf_counter() - started_at, 1),
            "failed": failed,
            "gb_of_device_and_process_on_the_way": samples,
        }
        engine.close()

    def run_in_time(self, name: str, call: Callable[[], None]) -> None:
        """Run one measurement if there is time for it, then write the page."""
        if time.perf_counter() > self.deadline:
            self.skipped.append(name)
        else:
            try:
                call()
            # A failed step is reported, and the others still run.
            except Exception as error:  # noqa: BLE001
                traceback.print_exc()
                self.skipped.append(f"{name}: {type(error).__name__}: {error}")
                self.model = None
        self.write()

    def write(self) -> None:
        """Write the page."""
        speeds = {row["step"]: row["tokens_a_second"] for row in self.rows}
        for row in self.rows:
            for base in ("sequential", "two-phase"):
                has_base = row["model"] == (self.only_model or LARGE_MODEL) and base in speeds
                times = round(row["tokens_a_second"] / speeds[base], 1) if has_base else None
                row[f"times_{base.replace('-', '_')}"] = times
        heads = ["step", "model", *COLUMNS]
        unmeasured = f"; not measured: {', '.join(self.skipped)}" if self.skipped else ""
        lines = [f"render_agent {__version__}{unmeasured}.", ""]
        lines += [f"- {name}: {json.dumps(facts)}" for name, facts in self.facts.items()]
        lines += ["", *table(heads, [[row.get(name) for name in heads] for row in self.rows])]
        shares = ["step", *ACTIVITIES]
        lines += ["", *table(shares, [[row.get(name) for name in shares] for row in self.rows])]
        lines += ["", *reproducibility(self.rows)]
        publish(self.output, "GPU", lines, machine())


def _noise(file: str) -> Any:
    from PIL import ImageChops

    return ImageChops.offset(_grain(), zlib.crc32(file.encode()) % 640)


@cache
def _grain() -> Any:
    from PIL import Image

    return Image.effect_noise((640, 480), 60).convert("RGB")


def _request(name: str, history: list[Any], tokens: int = 16) -> Request:
    file = chat.image_piece(f"{name} {len(history)}.png")
    messages = [*history, chat.message("user", chat.text("Where is the chair? " * 40), file)]
    return Request(name, len(history) // 2, messages, _noise, max_new_tokens=tokens)


def _memory_in_use(device: Any) -> tuple[float, float]:
    """Return the device memory in use by all processes, and the resident memory of this process, in GB."""
    import psutil
    import torch

    free, total = torch.cuda.mem_get_info() if device.type == "cuda" else (0, 0)
    return round((total - free) / 1e9, 2), round(psutil.Process().memory_info().rss / 1e9, 2)


@click.command()
@OUTPUT
@click.option("--minutes", default=7.5, show_default=True, help="Start no step after this time.")
@click.option("--device", default="cuda", show_default=True)
@click.option("--model", help="Use this model shape for all steps.")
@click.option("--many", "concurrent", default=128, show_default=True, help="Concurrent questions.")
@click.option("--image-size", default="640x480", show_default=True)
@click.option("--reproducible", is_flag=True, help="Run the steps on reproducibility instead.")
@click.option("--only", help="Run only these steps, separated by |.")
def main(
    output: Path | None,
    minutes: float,
    model: str | None,
    reproducible: bool,
    only: str | None,
    device: str,
    concurrent: int,
    image_size: str,
) -> None:
    """Measure one GPU within a time limit."""
    width, _, height = image_size.partition("x")
    config = RunConfig(
        batch=True,
        benchmark="rooms",
        shuffle=True,
        device=device,
        image_size=(int(width), int(height)),
    )
    measurement = Measurement(output, config, 60 * minutes, model)
    measurement.facts["machine"] = Transformers().machine(replace(config, reproducible="on"))
    # Warm up: compilation and loading are not measured.
    measurement.measure(Step("warm-up", 4, lengths=LengthDistributions((1, 2), 8)))
    measurement.rows.clear()
    for step in (reproducible_steps if reproducible else steps)(concurrent):
        if only is None or step.name in only.split("|"):
            measurement.run_in_time(step.name, partial(measurement.measure, step))
    if reproducible:
        return
    for name, call in (
        ("1,000 dialogues", lambda: measurement.long_run(min(1000, 8 * concurrent))),
        ("latency", lambda: measurement.latency(LARGE_MODEL)),
        ("latency, 2B", lambda: measurement.latency(SMALL_MODEL)),
    ):
        if only is None or name in only.split("|"):
            measurement.run_in_time(name, call)


if __name__ == "__main__":
    main()
