"""Builds and describes the engines of remote APIs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from render_agent.engines.engine_options import engine_options
from render_agent.engines.families.model_families import family_named
from render_agent.engines.remote.chat_api import ChatApi
from render_agent.engines.remote.endpoints import Endpoint, find_endpoints
from render_agent.engines.remote.http_client import query_server
from render_agent.engines.remote.remote_engine import RemoteEngine
from render_agent.engines.remote.remote_options import Options, read_options
from render_agent.errors import SetupError, UsageError
from render_agent.extras import require
from render_agent.options import OPTIONS, RunConfig

LOG = logging.getLogger(__name__)


def read_remote_options(config: RunConfig, module: str, kind: type[Options]) -> Options:
    """Return the engine options of a run over a remote API.

    Args:
        config: The options of the run.
        module: The SDK.
        kind: Class of the engine options.

    Raises:
        UsageError: An engine option is invalid, or an option is set that the server determines.
        SetupError: The SDK is not installed.
    """
    for name in ("revision", "dtype", "device", "tensor_parallel", "max_model_len"):
        if getattr(config, name) != OPTIONS[name].default:
            flag = "--" + name.replace("_", "-")
            raise UsageError(
                f"{flag} is determined by the server with --engine {config.engine}. Omit it."
            )
    require(f"--engine {config.engine}", module)
    return read_options(kind, engine_options(config.engine_option), config.engine)


def describe_remote(config: RunConfig, api: ChatApi) -> dict[str, Any]:
    """Return the metadata of the servers and the model for the run record.

    Raises:
        UsageError: An address is malformed.
        SetupError: A server is unreachable, or `--model` was not given and a server does not list the default.
    """
    servers = _look_up_all(find_endpoints(config.base_url, api.service), config, api)
    hybrid = _is_hybrid(api.model, servers)
    notes = [server.pop("note") for server in servers if "note" in server]
    record = {"name": api.engine, "model": api.model, "servers": servers, "hybrid": hybrid}
    return {**record, "note": "; ".join(notes)} if notes else record


def make_remote_engine(config: RunConfig, api: ChatApi) -> RemoteEngine:
    """Return the engine. Raises UsageError and SetupError as `describe_remote`."""
    endpoints = find_endpoints(config.base_url, api.service)
    servers = _look_up_all(endpoints, config, api)
    engine = RemoteEngine(api, endpoints, config.fixed_batch_size)
    for server, server_record in zip(engine.servers, servers, strict=True):
        server.note = server_record.get("note")
    if _is_hybrid(api.model, servers):
        # The server caches few recurrent states; if all dialogues took turns, they would be evicted before reuse.
        engine.capabilities = replace(engine.capabilities, sequential=True)
    return engine


def engine_per_server(
    config: RunConfig, api: ChatApi
) -> list[tuple[str, Callable[[], RemoteEngine]]]:
    """Return the URL of each server, and what creates an engine for it alone."""
    endpoints = find_endpoints(config.base_url, api.service)
    return [(endpoint.url, partial(RemoteEngine, api, [endpoint])) for endpoint in endpoints]


def _look_up_all(
    endpoints: Sequence[Endpoint], config: RunConfig, api: ChatApi
) -> list[dict[str, Any]]:
    servers = [query_server(entry, api) for entry in endpoints]
    notes = [server["note"] for server in servers if "note" in server]
    if notes and config.model is None:
        raise SetupError(f"{notes[0]}. Set --model to one of these.")
    for note in notes:
        LOG.warning("%s", note)
    return servers


def _is_hybrid(model: str, servers: Sequence[Mapping[str, Any]]) -> bool:
    """True if a model has recurrent layers, judging by its name or the `root` that a server reports."""
    return any(
        family_named(name).recurrent
        for name in (model, *(str(server.get("root")) for server in servers))
    )
