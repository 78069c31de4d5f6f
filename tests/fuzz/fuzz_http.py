"""Answers of servers, byte by byte, as the client of `--engine openai` reads them; there is no network."""

from __future__ import annotations

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
    from PIL.Image import Image

    from render_agent.dialogue import chat as dialogue
    from render_agent.engines.base import Request
    from render_agent.engines.openai.endpoints import Endpoint
    from render_agent.engines.openai.engine import OpenAIEngine
    from render_agent.engines.openai.options import OpenAIOptions
    from render_agent.errors import EngineError
    from render_agent.text.safe_parse import plain

    endpoint = Endpoint(URL, {"authorization": "Bearer secret"})
    with patch.object(openai, "DefaultAsyncHttpxClient", answering("Async", data)):
        engine = OpenAIEngine("made", [endpoint], OpenAIOptions(retries=0))
    request = Request("q", 0, [dialogue.message("user", dialogue.text("?"))], lambda _: Image())
    try:
        (reply,) = engine.generate([request])
        told = reply.error
    except EngineError as error:
        told = str(error)
    finally:
        engine.close()
    if told is not None:
        assert "secret" not in told
        assert "\n" not in told
        return
    assert all(isinstance(text, str) for text in reply.samples)
    assert all(0 <= count < 2**53 for count in plain(reply.tokens).values())


def models(data: bytes, folder: Path) -> None:
    """Read what a server says of itself before a run."""
    import openai

    from render_agent.engines.openai.client import look_up
    from render_agent.engines.openai.endpoints import Endpoint
    from render_agent.engines.openai.options import OpenAIOptions

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
