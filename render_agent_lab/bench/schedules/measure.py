"""Runs the same questions with every variant and measures each run."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.engines.engine import Engine
from render_agent.engines.memory.device import MainMemory, device_memory
from render_agent.options import RunConfig
from render_agent.runs.phase_controller import NullObserver
from render_agent.runs.read import RunData
from render_agent.runs.runner import resume_run, start_run
from render_agent_lab.bench.schedules.compared_engines import EngineFactory
from render_agent_lab.bench.schedules.figures import (
    Trial,
    baseline_seconds,
    read_work,
    summarize_trials,
)
from render_agent_lab.bench.schedules.variants import Variant

WARM_UP_QUESTIONS = 2


@dataclass(frozen=True, slots=True)
class Bench:
    """A comparison of variants."""

    config: RunConfig  # options shared by all runs, except the schedule
    engines: EngineFactory
    report: Callable[[str], None]

    def compare(self, variants: Sequence[Variant], rounds: int) -> list[dict[str, Any]]:
        """Return the results of every variant in order, as medians over interleaved rounds.

        Each engine runs once beforehand, unmeasured, so that compilation and loading are not timed.
        """
        for variant in {(v.engine, v.reuse): v for v in variants}.values():
            self.report(f"warming up: {variant.name}")
            self.measure(variant, replace(self.config, limit=WARM_UP_QUESTIONS))
        trials: list[Trial] = []
        for number in range(rounds):
            for variant in variants:
                self.report(f"round {number + 1} of {rounds}: {variant.name}")
                trials.append(trial := self.measure(variant, self.config))
                self.report(f"  {trial.seconds:.1f} s, {trial.cpu_seconds:.1f} s of CPU time")
        bases = baseline_seconds(trials)
        by_variant = [[trial for trial in trials if trial.variant == v] for v in variants]
        return [summarize_trials(repeated, bases, trials[0].work) for repeated in by_variant]

    def measure(
        self, variant: Variant, config: RunConfig, killed_after: Sequence[int] = ()
    ) -> Trial:
        """Measure one run in a temporary run folder, from the finished engine to the last reply."""
        with tempfile.TemporaryDirectory(prefix="render-agent-bench-") as folder:
            options = {"output": folder, **variant.options(config.max_turns)}
            # scripted, because the run must not look for weights, which may not exist
            run = start_run(replace(config, engine="scripted", model=None, **options))
            engines: list[MeteredEngine] = []

            def make(_: RunConfig, questions: Sequence[Question]) -> Engine:
                run_config = replace(config, engine=variant.engine, **options)
                engines.append(MeteredEngine(self.engines, variant, run_config, questions))
                return cast("Engine", engines[-1])  # only its attributes are read

            try:
                for turns in killed_after:
                    with suppress(KilledError):
                        run.go(Killer(turns), make)
                    run.close()
                    run = resume_run(RunData(run.path), {})
                run.go(NullObserver(), make)
            finally:
                run.close()
            width, height = config.image_size
            work = read_work(RunData(run.path).lines(), patches=width * height // 256)
        floor = None
        if self.engines.pretrained is not None and variant.engine == "transformers":
            from render_agent_lab.bench.schedules.lower_bound import lower_bound_seconds

            floor = lower_bound_seconds(self.engines.pretrained.model, work)
        return Trial(
            variant=variant,
            seconds=sum(engine.seconds for engine in engines),
            cpu_seconds=sum(engine.cpu_seconds for engine in engines),
            calls=sum(engine.calls for engine in engines),
            memory=max(
                (engine.peak for engine in engines if engine.peak is not None), default=None
            ),
            work=work,
            floor=floor,
        )


class KilledError(Exception):
    """Ends a run without warning."""


class Killer(NullObserver):
    """Observer that kills the run after a number of turns."""

    def __init__(self, turns: int) -> None:
        self.turns = turns

    def on_turn(self, state: QuestionState, turn: Turn) -> None:
        """Count a turn. Raises KilledError after the last one."""
        self.turns -= 1
        if self.turns <= 0:
            raise KilledError


class MeteredEngine:
    """Wraps an engine and measures wall time, CPU time, calls and peak memory until it is closed."""

    def __init__(
        self,
        engines: EngineFactory,
        variant: Variant,
        config: RunConfig,
        questions: Sequence[Question],
    ) -> None:
        self.inside = engines.make(variant, config, questions)
        model = engines.pretrained
        self.memory = MainMemory() if model is None else device_memory(model.model)
        self.memory.reset_peak()
        self.peak: int | None = None
        self.calls = 0
        self.seconds, self.cpu_seconds = -time.perf_counter(), -time.process_time()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def close(self) -> None:
        """Stop the clocks and close the engine."""
        self.seconds += time.perf_counter()
        self.cpu_seconds += time.process_time()
        self.calls, self.peak = self.inside.calls, self.memory.peak()
        self.inside.close()
