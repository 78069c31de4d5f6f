"""The base class of the engines that use a remote API."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.engine_options import engine_options
from render_agent.engines.families.model_families import family_named
from render_agent.engines.make_engine import EngineMaker
from render_agent.engines.remote.chat_api import ChatApi, Options, read_options
from render_agent.engines.remote.endpoints import Endpoint, find_endpoints
from render_agent.engines.remote.http_client import query_server
from render_agent.engines.remote.remote_engine import RemoteEngine
from render_agent.errors import SetupError, UsageError
from render_agent.extras import require
from render_agent.options import OPTIONS, RunConfig, flag_of

LOG = logging.getLogger(__name__)


class RemoteMaker(EngineMaker):
    """An API over HTTP."""

    default_model = ""
    has_batch_jobs = True
    loads_weights = False
    supports_scoring = False

    @abstractmethod
    def open_api(self, config: RunConfig) -> ChatApi:
        """Return the API with its options."""

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> RemoteEngine:
        api, endpoints = self._find_servers(config)
        records = _query_servers(endpoints, config, api)
        engine = RemoteEngine(api, endpoints, config.fixed_batch_size)
        for server, server_record in zip(engine.servers, records, strict=True):
            server.note = server_record.get("note")
        if _is_hybrid(api.model, records):
            # The server caches few recurrent states; if all dialogues took turns, they would be evicted before reuse.
            engine.capabilities = replace(engine.capabilities, sequential=True)
        return engine

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the metadata of the servers and the model for the run record."""
        api, endpoints = self._find_servers(config)
        records = _query_servers(endpoints, config, api)
        notes = [record.pop("note") for record in records if "note" in record]
        hybrid = _is_hybrid(api.model, records)
        description = {"servers": records, "hybrid": hybrid}
        return {**description, "note": "; ".join(notes)} if notes else description

    def servers(self, config: RunConfig) -> Sequence[tuple[str, Callable[[], Engine]]]:
        """Return the URL of each server, and what creates an engine for it alone."""
        api, endpoints = self._find_servers(config)
        return [(endpoint.url, partial(RemoteEngine, api, [endpoint])) for endpoint in endpoints]

    def _find_servers(self, config: RunConfig) -> tuple[ChatApi, list[Endpoint]]:
        api = self.open_api(config)
        return api, find_endpoints(config.base_url, api.service)


def read_remote_options(config: RunConfig, sdk: str, kind: type[Options]) -> Options:
    """Return the engine options of a run."""
    for name, entry in OPTIONS.items():
        is_set = entry.metadata.get("local") and getattr(config, name) != entry.default
        if is_set and not config.verifier:  # some verifiers load a model of their own
            raise UsageError(
                f"{flag_of(name)} is determined by the server with --engine {config.engine}. Omit it."
            )
    require(f"--engine {config.engine}", sdk)
    return read_options(kind, engine_options(config.engine_option), config.engine)


def required_model(config: RunConfig) -> str:
    """Return the value of `--model`. Raises UsageError if it is missing: hosted models have no default."""
    if not config.model:
        raise UsageError(f"--engine {config.engine} needs --model NAME")
    return config.model


def _query_servers(
    endpoints: Sequence[Endpoint], config: RunConfig, api: ChatApi
) -> list[dict[str, Any]]:
    records = [query_server(endpoint, api) for endpoint in endpoints]
    notes = [record["note"] for record in records if "note" in record]
    if notes and config.model is None:
        raise SetupError(f"{notes[0]}. Set --model to one of these.")
    for note in notes:
        LOG.warning("%s", note)
    return records


def _is_hybrid(model: str, servers: Sequence[Mapping[str, Any]]) -> bool:
    """True if a model has recurrent layers, judging by its name or the `root` that a server reports."""
    names = (model, *(str(server.get("root")) for server in servers))
    return any(family_named(name).recurrent for name in names)
