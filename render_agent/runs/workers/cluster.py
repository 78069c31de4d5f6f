"""Ray: the cluster that the workers run on, started on this machine or connected to."""

from __future__ import annotations

import io
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from render_agent.engines.make_engine import engine_traits
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.options import AUTO, RunConfig
from render_agent.util.reasons import reason_of

logger = logging.getLogger(__name__)

OBJECT_STORE_BYTES = 1 << 30
"""Bytes of shared memory for what workers hand over; what is larger goes through the disk."""

CONNECT_SECONDS = 10.0
"""Seconds in which the address of a cluster must answer."""

RAY_WORDS = (AUTO, "local")
"""What Ray takes in the place of an address."""

NO_CLUSTER = "start one with `ray start --head`, or leave --ray out to use this machine"
"""What to do where no cluster answers."""

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_COLOR_PREFIX": "0",
}
"""Settings of Ray: it reports nothing to its makers, leaves CUDA_VISIBLE_DEVICES as it is, no colours."""


def check_ray(config: RunConfig) -> None:
    """Raise SetupError where a run needs Ray and it is not installed, or its address is of no use."""
    if config.alone:
        return
    require("a run with --workers, --devices or --ray", "ray")
    host, _, port = (config.ray or "").rpartition(":")
    if config.ray in (None, *RAY_WORDS):
        return
    if "/" in host or not (host and port.isdecimal()):
        raise SetupError(
            f"--ray {config.ray} is not an address of a Ray cluster: pass HOST:6379, or auto on a machine of the"
            " cluster"
        )
    try:  # Ray itself would try for minutes
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise SetupError(
            f"--ray {config.ray}: no Ray cluster answers there ({error}); {NO_CLUSTER}"
        ) from error


@contextmanager
def cluster(address: str | None, workers: int) -> Iterator[Any]:
    """Give Ray, connected to the cluster at `address`, or to one of this machine that ends with it.

    A connection that the program already has is used and left open. What Ray prints goes to the
    log. SetupError where the cluster does not answer.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        with redirect_stdout(_Lines(logger.info)):
            yield ray
        return
    with redirect_stdout(_Lines(logger.info)):
        try:
            with _sigterm_kept():
                _connect(ray, address, workers)
            yield ray
        finally:
            ray.shutdown()


def _connect(ray: Any, address: str | None, workers: int) -> None:
    where: dict[str, Any] = {"address": address}
    if not address:
        where = {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
        }
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    # Ray raises the plain class where its own processes start too slowly.
    except Exception as error:
        reason = reason_of(error)
        raise SetupError(
            f"--ray {address}: no Ray cluster answers there ({reason}); {NO_CLUSTER}"
            if address
            else f"Ray, which runs the workers, could not be started on this machine: {reason}; try again when it"
            " is less busy, or leave --workers and --devices out"
        ) from error


def resources(config: RunConfig, cluster_gpus: float | None) -> dict[str, Any]:
    """Return the resources that a worker with these options asks Ray for.

    cluster_gpus: how many GPUs the cluster has; None on this machine, where devices are named and
    not counted.
    """
    if cluster_gpus is None:
        return {"num_cpus": 1, "num_gpus": 0}
    on_gpu = engine_traits(config.engine).holds_weights and (
        config.device.startswith("cuda") or (config.device == "auto" and cluster_gpus)
    )
    return {
        "num_cpus": 1,
        "num_gpus": config.tensor_parallel if on_gpu else 0,
        "scheduling_strategy": "SPREAD",
    }


@contextmanager
def _sigterm_kept() -> Iterator[None]:
    """Leave it to the program what SIGTERM does: Ray takes it for itself."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


class _Lines(io.TextIOBase):
    """A text file whose lines are logged."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log

    def write(self, text: str) -> int:
        for line in filter(str.strip, text.splitlines()):
            self._log(line)
        return len(text)
