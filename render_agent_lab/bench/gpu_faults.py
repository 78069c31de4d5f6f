"""Repeated out-of-memory conditions on a GPU: no reply is lost and no transcript changes.

    python -m render_agent_lab.bench.gpu_faults --output render_agent_lab/bench/results/gpu_faults.md

The same questions are answered undisturbed, then while another allocator repeatedly fills all device memory (at seeded
random times), then with every out-of-memory error that libraries raise injected into random calls. The model has random
float32 weights and generates its own replies, and every transcript must stay the same.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import random
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from render_agent import __version__
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.options import RunConfig
from render_agent_lab.bench.command import model_summary
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table
from render_agent_lab.bench.schedules.compared_engines import EngineFactory
from render_agent_lab.bench.schedules.figures import Trial, summarize_trials
from render_agent_lab.bench.schedules.measure import Bench
from render_agent_lab.bench.schedules.variants import Variant
from render_agent_lab.random_models.random_model import random_model

ERROR_MESSAGES = (
    "CUDA out of memory. Tried to allocate 2.00 GiB.",
    "CUDA error: out of memory",
    "CUDA error: unknown error",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "cuDNN Frontend error: [cudnn_frontend] Error: No valid execution plans built.",
    "Expected mha_graph.execute(handle, variant_pack, workspace_ptr.get()).is_good() to be true",
)


class MemoryFiller(threading.Thread):
    """Repeatedly fills the device's memory through the driver, bypassing PyTorch, and frees it.

    `under_way` is set while an engine works; memory is only filled then. `filling` is held while memory is full.
    """

    filling = threading.Lock()

    def __init__(self, times: int, seed: int, under_way: threading.Event) -> None:
        super().__init__(daemon=True)
        self.times, self.rng, self.under_way = times, random.Random(seed), under_way
        self.num_filled = 0
        self.stop = threading.Event()

    def run(self) -> None:
        """Fill, wait, free, wait."""
        import torch

        torch.ones(1, device="cuda")  # creates a CUDA context for this thread
        driver = ctypes.CDLL("libcuda.so.1")
        while self.num_filled < self.times and not self.stop.is_set():
            time.sleep(self.rng.uniform(0.0, 0.2))
            with self.filling:
                if not self.under_way.is_set():
                    continue
                torch.cuda.empty_cache()  # fill PyTorch's unused cache too
                addresses: list[int] = []
                for size in (1 << 30, 1 << 26, 1 << 21):
                    address = ctypes.c_uint64()
                    while not driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)):
                        addresses.append(address.value)
                time.sleep(self.rng.uniform(0.02, 0.25))
                for filled in addresses:
                    driver.cuMemFree_v2(ctypes.c_uint64(filled))
                self.num_filled += 1


class WatchedEngineFactory(EngineFactory):
    """Engine factory with an event that is set from the creation of an engine until it is closed."""

    under_way = threading.Event()

    def make(self, variant: Variant, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the engine of a variant."""
        engine = super().make(variant, config, questions)
        close = engine.close

        def close_and_clear() -> None:
            with MemoryFiller.filling:
                self.under_way.clear()
            close()

        engine.close = close_and_clear  # type: ignore[method-assign]
        self.under_way.set()
        return engine


@contextlib.contextmanager
def inject_errors(one_in: int, seed: int) -> Iterator[list[int]]:
    """Make one in `one_in` allocations, prefills and decoding steps fail; yield the count of faults."""
    import torch

    rng, count = random.Random(seed), [0]
    names = ("_reserve_pages", "_first_tokens", "_next_tokens")
    calls = {name: getattr(Scheduler, name) for name in names}

    def make_unreliable(call: Any) -> Any:
        def unreliable(*arguments: Any) -> Any:
            if rng.randrange(one_in) == 0:
                count[0] += 1
                message = rng.choice(ERROR_MESSAGES)
                raise (torch.OutOfMemoryError if message == ERROR_MESSAGES[0] else RuntimeError)(
                    message
                )
            return call(*arguments)

        return unreliable

    for name, call in calls.items():
        setattr(Scheduler, name, make_unreliable(call))
    try:
        yield count
    finally:
        for name, call in calls.items():
            setattr(Scheduler, name, call)


class Comparison:
    """Runs under memory pressure compared with an undisturbed one; the page is rewritten after each."""

    def __init__(
        self, output: Path | None, bench: Bench, variant: Variant, config: RunConfig
    ) -> None:
        self.output = output
        self.rounds: dict[str, list[Trial]] = {}
        self.details: dict[str, dict[str, Any]] = {}
        self._measure = partial(bench.measure, variant, config)
        self.model: dict[str, Any] = {}

    def run(self, name: str, **facts: Any) -> bool:
        """Answer all questions once more; return True if the run completed."""
        rounds, details = self.rounds.setdefault(name, []), self.details.setdefault(name, {})
        try:
            rounds.append(self._measure())
        # This benchmark looks for aborted runs.
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            details["aborted"] = f"{type(error).__name__}: {error}"
        details.update(facts, runs=len(rounds))
        self.write()
        return "aborted" not in details

    def write(self) -> None:
        """Write the page."""
        rows = {name: dict(details) for name, details in self.details.items()}
        for name, rounds in self.rounds.items():
            if rounds:
                undisturbed = self.rounds["undisturbed"][0].work
                rows[name] = {**summarize_trials(rounds, {}, undisturbed), **rows[name]}
        names = "runs filled faults seconds questions failed questions_that_differ events".split()
        names += ["aborted"]
        cells = [[name, *(row.get(key) for key in names)] for name, row in rows.items()]
        lines = [
            f"render_agent {__version__}.",
            "",
            json.dumps(self.model),
            "",
            *table(["run", *names], cells),
        ]
        publish(self.output, "GPU memory faults", lines, machine())


@click.command()
@OUTPUT
@click.option("--model", default="Qwen/Qwen3-VL-2B-Instruct", show_default=True)
@click.option("--device", default="cuda", show_default=True)
@click.option("--questions", default=32, show_default=True)
@click.option("--times", default=100, show_default=True, help="Number of times memory is filled.")
@click.option("--minutes", default=7.0, show_default=True, help="Start no run after this time.")
@click.option("--one-in", default=40, show_default=True, help="Inject an error in one of N calls.")
@click.option("--image-size", default=640, show_default=True, help="Width in pixels (4:3 images).")
@click.option("--seed", default=0, show_default=True)
def main(
    output: Path | None,
    model: str,
    device: str,
    questions: int,
    times: int,
    minutes: float,
    one_in: int,
    image_size: int,
    seed: int,
) -> None:
    """Compare runs under memory pressure with an undisturbed one."""
    deadline = time.perf_counter() + 60 * minutes
    config = RunConfig(
        batch=True,
        benchmark="rooms",
        shuffle=True,
        device=device,
        image_size=(image_size, image_size * 3 // 4),
        limit=questions,
        max_turns=3,
        max_new_tokens=48,
    )
    pretrained = random_model(model, device, "float32")
    engines = WatchedEngineFactory(config, pretrained, None)
    bench = Bench(config, engines, lambda line: None)
    variant = Variant("transformers", "refill", "keys", "auto")
    bench.measure(variant, replace(config, limit=2))
    comparison = Comparison(output, bench, variant, config)
    comparison.model = model_summary(pretrained, model)
    if not comparison.run("undisturbed"):
        raise SystemExit(1)
    if pretrained.model.device.type == "cuda":
        filler = MemoryFiller(times, seed, engines.under_way)
        filler.start()
        completed = True
        while completed and filler.is_alive() and time.perf_counter() < deadline:
            completed = comparison.run("filled from outside")
            comparison.details["filled from outside"]["filled"] = filler.num_filled
        filler.stop.set()
        filler.join()
    with inject_errors(one_in, seed) as count:
        comparison.run("errors injected")
    comparison.details["errors injected"]["faults"] = count[0]
    comparison.write()


if __name__ == "__main__":
    main()
