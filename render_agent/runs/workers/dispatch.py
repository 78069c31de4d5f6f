"""A run dispatched: the workers that its options ask for, and a place for their files."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import ceil
from pathlib import Path

from render_agent.config import RunConfig
from render_agent.dialogue.state import QuestionState
from render_agent.runs.log.folder import RunLog
from render_agent.runs.phase_controller import Observer
from render_agent.runs.workers.cluster import cluster
from render_agent.runs.workers.driver import Driver
from render_agent.runs.workers.worker import MakeEngine, Play, Setup


def dispatch(
    config: RunConfig,
    states: Sequence[QuestionState],
    log: RunLog,
    observer: Observer,
    make_engine: MakeEngine,
    play: Play,
) -> None:
    """Take every active question to its end in the workers that the options ask for.

    make_engine, play: are called in the workers. SetupError where no worker can be set up,
    EngineError where none is left, RunLogError where the log cannot be written.
    """
    configs = worker_configs(config)
    scenes = {state.question.scene for state in states if state.active}
    configs = configs[: max(1, len(scenes))]
    with _scratch(log.path) as scratch, cluster(config.ray, len(configs)) as ray:
        machines = sum(node["Alive"] for node in ray.nodes())
        setup = Setup(
            [state.question for state in states],
            make_engine,
            play,
            neighbours=ceil(len(configs) / machines),
            scratch=scratch,
        )
        gpus = ray.cluster_resources().get("GPU", 0) if config.ray else None
        driver = Driver(ray, configs, setup, states, log, observer, gpus)
        try:
            driver.run()
        finally:
            driver.close()


@contextmanager
def _scratch(run: Path) -> Iterator[Path]:
    """Give a place for the workers' files and empty it; also what a killed driver of the run left."""
    place = Path(tempfile.gettempdir())
    name = f"render-agent-{hashlib.sha256(bytes(run.absolute())).hexdigest()[:12]}"
    for old in place.glob(f"{name}-*"):
        shutil.rmtree(old, ignore_errors=True)
    scratch = place / f"{name}-{secrets.token_hex(4)}"
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def worker_configs(config: RunConfig) -> list[RunConfig]:
    """Return the options of each worker: those of the run, with its device where devices are named."""
    alone = replace(config, workers=1, devices=(), ray=None)
    if config.devices:
        # On a cluster a worker sees its own GPUs only, and counts them from 0.
        named = [
            "cuda:0" if config.ray and device.startswith("cuda") else device
            for device in config.devices
        ]
        return [replace(alone, device=device) for device in named]
    return [alone] * config.workers
