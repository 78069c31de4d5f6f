"""The Ray cluster that workers run on: started on this machine, or an existing one."""

from __future__ import annotations

import io
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

from render_agent.engines.make_engine import engine_traits
from render_agent.errors import SetupError
from render_agent.extras import require
from render_agent.options import AUTO, RunConfig
from render_agent.util.reasons import reason_of

logger = logging.getLogger(__name__)

# Shared memory for objects passed to workers; any excess spills to disk.
OBJECT_STORE_BYTES = 1 << 30

CONNECT_SECONDS = 10.0  # timeout for connecting to a cluster

RAY_WORDS = (AUTO, "local")  # values that Ray accepts instead of an address

NO_CLUSTER = "Start a cluster with `ray start --head`, or omit --ray to use this machine."

NO_TOKEN = (
    "If it requires a token, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN, which `ray get-auth-token` prints on its"
    " machine."
)

# Ray settings: no usage reports, CUDA_VISIBLE_DEVICES unchanged, no colours
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_COLOR_PREFIX": "0",
}


def check_ray(config: RunConfig) -> None:
    """Raise SetupError if a run needs Ray and it is not installed, or if its address is unusable."""
    if config.alone:
        return
    require("a run with --workers, --devices or --ray", "ray")
    host, _, port = (config.ray or "").rpartition(":")
    if config.ray in (None, *RAY_WORDS):
        return
    if "/" in host or not (host and port.isdecimal()):
        raise SetupError(
            f"--ray {config.ray} is not an address of a Ray cluster. Pass HOST:6379, or auto on a machine of the"
            " cluster."
        )
    try:  # Ray itself would retry for minutes
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise SetupError(
            f"--ray {config.ray}: no Ray cluster answers there ({error}). {NO_CLUSTER}"
        ) from error


@contextmanager
def cluster(
    # address of the cluster; None starts one on this machine that ends with the context
    address: str | None,
    workers: int,
) -> Iterator[Any]:
    """Yield Ray, connected to a cluster.

    Uses an existing connection of the program, and leaves it open. Ray's output goes to the log.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    if address and _has_token():
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    import ray

    if ray.is_initialized():
        with redirect_stdout(_LogWriter(logger.info)):
            yield ray
        return
    with redirect_stdout(_LogWriter(logger.info)):
        try:
            with _keep_sigterm_handler():
                _connect(ray, address, workers)
            yield ray
        finally:
            ray.shutdown()


def _has_token() -> bool:
    """True if this machine has a token for Ray clusters; `ray start` requires it if it exists (from Ray 2.60 on)."""
    if os.environ.get("RAY_AUTH_TOKEN"):
        return True
    default = Path.home() / ".ray" / "auth_token"
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or default).is_file()


def _connect(ray: Any, address: str | None, workers: int) -> None:
    settings: dict[str, Any] = {"address": address}
    if not address:
        settings = {
            "address": "local",
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_node_ip_address": "127.0.0.1",
        }
    try:
        ray.init(**settings, log_to_driver=False, logging_level=logging.ERROR)
    # Ray raises a plain Exception if its processes start too slowly
    except Exception as error:
        reason = reason_of(error)
        raise SetupError(
            f"--ray {address}: no Ray cluster answers there ({reason}). {NO_TOKEN} {NO_CLUSTER}"
            if address
            else f"cannot start Ray, which runs the workers, on this machine: {reason}. Try again when it is less busy,"
            " or omit --workers and --devices."
        ) from error


def resources(config: RunConfig, cluster_gpus: float | None) -> dict[str, Any]:
    """Return the resources that a worker requests from Ray."""
    if cluster_gpus is None:
        return {"num_cpus": 1, "num_gpus": 0}
    on_gpu = engine_traits(config.engine).loads_weights and (
        config.device.startswith("cuda") or (config.device == "auto" and cluster_gpus)
    )
    return {
        "num_cpus": 1,
        "num_gpus": config.tensor_parallel if on_gpu else 0,
        "scheduling_strategy": "SPREAD",
    }


@contextmanager
def _keep_sigterm_handler() -> Iterator[None]:
    """Restore the program's SIGTERM handler, which Ray replaces."""
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


class _LogWriter(io.TextIOBase):
    """Text file that logs every line written to it."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self._log = log

    def write(self, text: str) -> int:
        for line in filter(str.strip, text.splitlines()):
            self._log(line)
        return len(text)
