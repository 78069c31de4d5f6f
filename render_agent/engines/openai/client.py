"""The client of one server: its answer to a chat, or what went wrong and what can be done about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from render_agent.engines.openai.endpoints import Endpoint
from render_agent.engines.openai.options import OpenAIOptions
from render_agent.engines.openai.rate_limit import MAX_COOLDOWN_SECONDS, limit_reset, retry_after
from render_agent.engines.openai.response_limits import PLAIN, ResponseRefused, read_bounded_async
from render_agent.engines.openai.responses import Answer, read_answer
from render_agent.text.safe_parse import parse_json

AGAIN = frozenset({408, 409, 425, 429})
"""Statuses below 500 that another attempt may cure."""

NO_KEY = "EMPTY"
"""Sent where there is no key: the client insists on one, and keeps to it rather than the environment's."""


class Kind(StrEnum):
    """What went wrong. The first six may be cured by another attempt."""

    UNREACHABLE = "unreachable"
    CLOSED = "connection closed"
    SLOW = "no reply in time"
    BUSY = "asked to wait"
    BROKEN = "server error"
    GARBAGE = "no readable reply"
    REFUSED = "request refused"
    BARRED = "access refused"


@dataclass(eq=False)
class ServerFault(Exception):
    """Why a call gave no answer.

    reason: in words, without secrets. wait: seconds that the server asks for. param, refusal: the
    field that a refusal names, and all its words.
    """

    kind: Kind
    reason: str
    wait: float | None = None
    param: str | None = None
    refusal: str = ""


class ServerClient:
    """The connections to one server: makes each request once, and sends the key of its server only."""

    def __init__(self, endpoint: Endpoint, options: OpenAIOptions) -> None:
        import openai

        self.endpoint = endpoint
        self._timeout = options.timeout
        self._client: Any = openai.AsyncOpenAI(
            api_key=NO_KEY,
            base_url=endpoint.url,
            default_headers={**PLAIN, **endpoint.headers},
            max_retries=0,
            timeout=openai.Timeout(options.timeout, connect=options.connect_timeout),
            # The proxy of the environment cannot reach this machine.
            http_client=openai.DefaultAsyncHttpxClient(
                trust_env=not endpoint.loopback, event_hooks={"response": [read_bounded_async]}
            ),
        )

    async def chat(
        self, model: str, messages: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]
    ) -> tuple[Answer, float | None]:
        """Make one request; return the answer, and for how long a limit is used up now, in seconds.

        ServerFault where there is no whole answer in time.
        """
        import openai

        try:
            async with asyncio.timeout(self._timeout):
                raw = await self._client.chat.completions.with_raw_response.create(
                    model=model, messages=messages, extra_body=dict(fields)
                )
        except TimeoutError:
            raise ServerFault(Kind.SLOW, f"no whole reply in {self._timeout:g} s") from None
        except (openai.OpenAIError, ResponseRefused) as error:
            raise fault_of(error, self.endpoint) from None
        try:
            answer = read_answer(parse_json(raw.text))
        except ValueError:
            answer = None
        if answer is None:
            shown = first_words(raw.text, self.endpoint.secrets)
            raise ServerFault(
                Kind.GARBAGE, f"it answered with something else than a chat: {shown!r}"
            )
        return answer, limit_reset(raw.headers)

    async def close(self) -> None:
        """End all connections."""
        await self._client.close()


def fault_of(error: Exception, endpoint: Endpoint) -> ServerFault:
    """Return what an error of the client means."""
    import openai

    if isinstance(error, openai.APIStatusError):
        response = error.response
        return status_fault(response.status_code, response.headers, response.text, endpoint.secrets)
    cause = error.__cause__ or error
    name = type(cause).__name__
    if isinstance(cause, ResponseRefused):
        return ServerFault(Kind.GARBAGE, str(cause))
    if name == "ConnectTimeout":
        return ServerFault(Kind.UNREACHABLE, "it did not answer in time")
    if name == "ConnectError":
        return ServerFault(Kind.UNREACHABLE, _connect_reason(cause))
    if isinstance(error, openai.APITimeoutError):
        return ServerFault(Kind.SLOW, "no reply in time")
    if isinstance(error, openai.APIConnectionError):
        return ServerFault(Kind.CLOSED, f"the connection broke off ({name})")
    raise error


def _connect_reason(error: BaseException | None) -> str:
    """Return why a connection could not be made: what the system said, under the libraries' own words."""
    reason = "connection failed"
    while error is not None:
        if isinstance(error, ConnectionRefusedError):
            return "connection refused"
        if isinstance(error, OSError) and error.strerror:
            reason = error.strerror
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
    return reason


def status_fault(
    status: int, headers: Mapping[str, str], text: str, secrets: Sequence[str]
) -> ServerFault:
    """Return what a status other than 200 says. secrets: words to be left out of the reason."""
    words, param, code = _error_of(text)
    shown = first_words(words, secrets)
    reason = f"status {status}: {shown}" if shown else f"status {status}"
    wait = retry_after(headers)
    if status == 429 and ("insufficient_quota" in code or (wait or 0) > MAX_COOLDOWN_SECONDS):
        return ServerFault(Kind.BARRED, reason + (f" (wait {wait:.0f} s)" if wait else ""))
    if status == 429 or (status == 503 and wait is not None):
        return ServerFault(Kind.BUSY, reason, wait)
    if status in AGAIN or status >= 500:
        return ServerFault(Kind.BROKEN, reason, wait)
    if status in (401, 403, 404):
        return ServerFault(Kind.BARRED, reason)
    return ServerFault(Kind.REFUSED, reason, param=param, refusal=words)


def first_words(text: str, secrets: Sequence[str] = (), most: int = 300) -> str:
    """Return the beginning of what a server said in one line, its secrets blacked out."""
    for secret in filter(None, secrets):
        text = text.replace(secret, "[key]")
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most] + "…"


def _error_of(text: str) -> tuple[str, str | None, str]:
    """Return the words, the named field and the code of a server's error message, whatever its form."""
    try:
        body = parse_json(text)
    except ValueError:
        return text, None, ""
    error = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(error, dict):
        return (error if isinstance(error, str) else text), None, ""
    words = error.get("message") or error.get("detail") or error
    param, code = error.get("param"), error.get("code") or error.get("type")
    return (
        words if isinstance(words, str) else json.dumps(words),
        param if isinstance(param, str) else None,
        str(code or ""),
    )
