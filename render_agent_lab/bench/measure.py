"""Takes the same questions to their end in every variant, and measures each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from render_agent.config import OPTIONS, RunConfig
from render_agent.dialogue.state import Question
from render_agent.engines.base import Engine
from render_agent.engines.memory.device import DeviceMemory, MainMemory, memory_of
from render_agent.engines.registry import MODEL_OPTIONS
from render_agent.observation import ViewProvider
from render_agent.observation.picture_store import Pictures
from render_agent.observation.setup import make_views
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.phase_controller import Silent
from render_agent.runs.runner import start_run
from render_agent.scene.cache import SceneCache
from render_agent_lab.bench.compared_engines import Engines
from render_agent_lab.bench.figures import Trial, Work, baselines_of, summary, work_of
from render_agent_lab.bench.meter import MeteredEngine, MeteredViews, overlap
from render_agent_lab.bench.variants import Variant

WARM_UP_QUESTIONS = 2


@dataclass(frozen=True, slots=True)
class Bench:
    """One comparison.

    config: the options of all runs, schedules apart. report: is given a line on what is measured.
    """

    config: RunConfig
    engines: Engines
    report: Callable[[str], None]

    def compare(self, variants: Sequence[Variant], rounds: int) -> list[dict[str, Any]]:
        """Return the figures of every variant, in order: medians over rounds that take turns.

        Each way of answering and drawing runs once beforehand, unmeasured, so that what is compiled
        or loaded at first use is there.
        """
        warm: dict[tuple[str, str, str], Variant] = {}
        for variant in variants:
            warm[variant.engine, variant.reuse, variant.renderer] = variant
        for variant in warm.values():
            self.report(f"warming up: {variant.name}")
            self.measure(variant, replace(self.config, limit=WARM_UP_QUESTIONS))
        trials: list[Trial] = []
        for number in range(rounds):
            for variant in variants:
                self.report(f"round {number + 1} of {rounds}: {variant.name}")
                trials.append(trial := self.measure(variant, self.config))
                self.report(f"  {trial.seconds:.1f} s, {trial.processor:.1f} of the processor")
        bases = baselines_of(trials)
        of_each = [[trial for trial in trials if trial.variant == v] for v in variants]
        return [summary(repeated, bases, trials[0].work) for repeated in of_each]

    def measure(self, variant: Variant, config: RunConfig) -> Trial:
        """Measure one run of a variant, in a temporary run folder."""
        with tempfile.TemporaryDirectory(prefix="render-agent-bench-") as folder:
            options = {"output": folder, **variant.options(config.max_turns)}
            # The folder's record would otherwise look for weights that there may not be.
            bare = {name: OPTIONS[name].default for name in ("model", *MODEL_OPTIONS)}
            run = start_run(replace(config, engine="scripted", **{**bare, **options}))
            watch = Watch(self.engines, variant, replace(config, engine=variant.engine, **options))
            try:
                run.go(Silent(), watch.make_engine, watch.make_views)
            finally:
                run.close()
            return watch.trial(run.path)


class Watch:
    """Watches one run: from the engine's being there to the end of the last turn."""

    def __init__(self, engines: Engines, variant: Variant, config: RunConfig) -> None:
        self.engines = engines
        self.variant = variant
        self.config = config
        self.memory: DeviceMemory = MainMemory()
        if engines.pretrained is not None:
            self.memory = memory_of(engines.pretrained.model)
        self.began = self.began_cpu = 0.0

    def make_engine(self, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Return the variant's engine, watched; the clock starts."""
        inside = self.engines.make(self.variant, self.config, questions)
        self.engine = MeteredEngine(inside, self.memory)
        self.began, self.began_cpu = time.perf_counter(), time.process_time()
        return cast("Engine", self.engine)  # whose attributes are only read

    def make_views(
        self,
        config: RunConfig,
        scenes: SceneCache,
        pictures: Pictures,
        questions: Sequence[Question],
    ) -> ViewProvider:
        """Return the metered view provider."""
        self.views = MeteredViews(make_views(config, scenes, pictures, questions))
        return cast("ViewProvider", self.views)

    def trial(self, path: Path) -> Trial:
        """Return the figures of the run whose log lies at a path."""
        engine, ended = self.engine, self.engine.closed
        drawing = self.views.drawing
        width, height = self.config.image_size
        work = work_of(RunFolder(path).lines(), patches=width * height // 256)
        return Trial(
            variant=self.variant,
            seconds=ended - self.began,
            processor=engine.closed_cpu - self.began_cpu,
            calls=engine.calls,
            limit=engine.limit,
            running=engine.running(),
            waiting=overlap(engine.gaps(self.began, ended), drawing),
            drawing=sum(end - start for start, end in drawing),
            memory=engine.peak,
            work=work,
            floor=self._floor(work),
        )

    def _floor(self, work: Work) -> float | None:
        """Return the floor of the work, None where the model does not run in this process."""
        if self.engines.pretrained is None or self.variant.engine != "transformers":
            return None
        from render_agent_lab.bench.physical_floor import floor_seconds

        return floor_seconds(self.engines.pretrained.model, work)
