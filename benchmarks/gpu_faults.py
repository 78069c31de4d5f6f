"""Repeated out-of-memory conditions on a GPU: nothing may be lost, and no transcript may change.

    python -m benchmarks.gpu_faults --output benchmarks/results/gpu_faults.md

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

from benchmarks.harness import OUTPUT, machine, publish, table
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine
from render_agent.engines.transformers.scheduler import Scheduler
from render_agent.options import RunConfig
from render_agent_lab.bench.command import model_summary
from render_agent_lab.bench.compared_engines import EngineFactory
from render_agent_lab.bench.figures import Trial, summarize_trials
from render_agent_lab.bench.measure import Bench
from render_agent_lab.bench.variants import Variant
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
        self.times, self.chance, self.under_way = times, random.Random(seed), under_way
        self.done = 0
        self.ended = threading.Event()

    def run(self) -> None:
        """Fill, wait, free, wait."""
        import torch

        torch.ones(1, device="cuda")  # creates a CUDA context for this thread
        driver = ctypes.CDLL("libcuda.so.1")
        while self.done < self.times and not self.ended.is_set():
            time.sleep(self.chance.uniform(0.0, 0.2))
            with self.filling:
                if not self.under_way.is_set():
                    continue
                torch.cuda.empty_cache()  # fill PyTorch's unused cache too
                addresses = []
                for size in (1 << 30, 1 << 26, 1 << 21):
                    place = ctypes.c_uint64()
                    while not driver.cuMemAlloc_v2(ctypes.byref(place), ctypes.c_size_t(size)):
                        addresses.append(place.value)
                time.sleep(self.chance.uniform(0.02, 0.25))
                for address in addresses:
                    driver.cuMemFree_v2(ctypes.c_uint64(address))
                self.done += 1


class WatchedEngineFactory(EngineFactory):
    """Engine factory with an event that is set from the creation of an engine until it is closed."""

    under_way = threading.Event()

    def make(self, variant: Variant, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the engine of a variant."""
        engine = super().make(variant, config, questions)
        close = engine.close

        def closed() -> None:
            with MemoryFiller.filling:
                self.under_way.clear()
            close()

        engine.close = closed  # type: ignore[method-assign]
        self.under_way.set()
        return engine


@contextlib.contextmanager
def injected(one_in: int, seed: int) -> Iterator[list[int]]:
    """Make one in `one_in` allocations, prefills and decoding steps fail; yield the count of faults."""
    import torch

    chance, count = random.Random(seed), [0]
    names = ("_reserve_pages", "_first_tokens", "_next_tokens")
    calls = {name: getattr(Scheduler, name) for name in names}

    def failing(call: Any) -> Any:
        def called(*given: Any) -> Any:
            if chance.randrange(one_in) == 0:
                count[0] += 1
                words = chance.choice(ERROR_MESSAGES)
                raise (torch.OutOfMemoryError if words == ERROR_MESSAGES[0] else RuntimeError)(
                    words
                )
            return call(*given)

        return called

    for name, call in calls.items():
        setattr(Scheduler, name, failing(call))
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
        self.said: dict[str, dict[str, Any]] = {}
        self._measured = partial(bench.measure, variant, config)
        self.model: dict[str, Any] = {}

    def take(self, name: str, **said: Any) -> bool:
        """Answer all questions once more; return True if the run completed."""
        rounds, details = self.rounds.setdefault(name, []), self.said.setdefault(name, {})
        try:
            rounds.append(self._measured())
        # Aborted runs are what this benchmark looks for.
        except Exception as error:  # noqa: BLE001
            traceback.print_exc()
            details["aborted"] = f"{type(error).__name__}: {error}"
        details.update(said, runs=len(rounds))
        self.write()
        return "aborted" not in details

    def write(self) -> None:
        """Write the page."""
        rows = {name: dict(said) for name, said in self.said.items()}
        for name, rounds in self.rounds.items():
            if rounds:
                undisturbed = self.rounds["undisturbed"][0].work
                rows[name] = {**summarize_trials(rounds, {}, undisturbed), **rows[name]}
        names = "runs filled faults seconds questions failed questions_that_differ events".split()
        names += ["aborted"]
        cells = [[name, *(row.get(key) for key in names)] for name, row in rows.items()]
        lines = [json.dumps(self.model), "", *table(["run", *names], cells)]
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
def main(output: Path | None, **given: Any) -> None:
    """Compare runs under memory pressure with an undisturbed one."""
    width, until = given["image_size"], time.perf_counter() + 60 * given["minutes"]
    config = RunConfig(
        batch=True,
        benchmark="rooms",
        shuffle=True,
        device=given["device"],
        image_size=(width, width * 3 // 4),
        limit=given["questions"],
        max_turns=3,
        max_new_tokens=48,
    )
    pretrained = random_model(given["model"], given["device"], "float32")
    engines = WatchedEngineFactory(config, pretrained, None)
    bench = Bench(config, engines, lambda words: None)
    variant = Variant("transformers", "refill", "keys", "auto")
    bench.measure(variant, replace(config, limit=2))
    comparison = Comparison(output, bench, variant, config)
    comparison.model = model_summary(pretrained, given["model"])
    if not comparison.take("undisturbed"):
        raise SystemExit(1)
    if pretrained.model.device.type == "cuda":
        filler = MemoryFiller(given["times"], given["seed"], engines.under_way)
        filler.start()
        completed = True
        while completed and filler.is_alive() and time.perf_counter() < until:
            completed = comparison.take("filled from outside")
            comparison.said["filled from outside"]["filled"] = filler.done
        filler.ended.set()
        filler.join()
    with injected(given["one_in"], given["seed"]) as count:
        comparison.take("errors injected")
    comparison.said["errors injected"]["faults"] = count[0]
    comparison.write()


if __name__ == "__main__":
    main()
