"""Answers of servers, byte by byte, as the client of `--engine openai` reads them; there is no network."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import patch

URL = "http://localhost:9/v1"


def chat(data: bytes, folder: Path) -> None:
    """Read an answer to a chat."""
    import openai

    from render_agent.engines.base import Reply
    from render_agent.engines.openai.client import ServerClient, ServerFault
    from render_agent.engines.openai.endpoints import Endpoint
    from render_agent.engines.openai.options import OpenAIOptions
    from render_agent.engines.openai.server_compat import adapted, first_dialect
    from render_agent.text.safe_parse import plain

    endpoint, options = Endpoint(URL, {"authorization": "Bearer secret"}), OpenAIOptions()
    with patch.object(openai, "DefaultAsyncHttpxClient", answering("Async", data)):
        client = ServerClient(endpoint, options)

    async def asked() -> tuple[Reply, float | None]:
        try:
            return await client.chat("made", [], {"seed": 1})
        finally:
            await client.close()

    found: ServerFault | None = None
    try:
        answer, wait = asyncio.run(asked())
    except ServerFault as fault:
        found, wait = fault, fault.wait
    assert wait is None or wait >= 0
    if found is None:
        assert all(isinstance(text, str) for text in answer.samples)
        assert all(0 <= count < 2**53 for count in plain(answer.tokens).values())
        return
    assert "secret" not in found.reason
    assert "\n" not in found.reason
    adapted(first_dialect(endpoint, options), {"seed": 1}, found.param, found.refusal)


def models(data: bytes, folder: Path) -> None:
    """Read what a server says of itself before a run."""
    import openai

    from render_agent.engines.openai.endpoints import Endpoint
    from render_agent.engines.openai.options import OpenAIOptions
    from render_agent.engines.openai.servers import look_up

    with patch.object(openai, "DefaultAsyncHttpxClient", answering("Async", data)):
        told = look_up(Endpoint(URL), "made", OpenAIOptions())
    json.dumps(told)


def answering(kind: str, data: bytes) -> Any:
    """Return what makes the client's own HTTP client, but that every connection gives these bytes.

    kind: Async, or nothing.
    """
    import openai

    given: type = getattr(openai, f"Default{kind}HttpxClient")
    library = _root(given.__mro__[1])

    def made(**options: Any) -> Any:
        transport = getattr(library, f"{kind}HTTPTransport")(
            verify=False
        )  # else it reads certificates
        pool = type(transport._pool)
        backend = getattr(_root(pool), f"{kind}MockBackend")
        transport._pool = pool(network_backend=backend([data]))
        return given(**options, transport=transport)

    return made


def _root(of: type) -> ModuleType:
    """Return the package that a class comes from: the client has changed its HTTP library once."""
    return sys.modules[of.__module__.partition(".")[0]]
