"""The client of one server: its answer to a chat, read within bounds, or the fault and whether a retry may help."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from render_agent.engines.base import Reply
from render_agent.engines.openai.chat_format import read_answer
from render_agent.engines.openai.endpoints import Endpoint
from render_agent.engines.openai.options import OpenAIOptions
from render_agent.engines.openai.rate_limit import MAX_COOLDOWN_SECONDS, limit_reset, retry_after
from render_agent.text.reasons import short_repr, shortened
from render_agent.text.redact import without, without_keys
from render_agent.text.safe_parse import parse_json

MAX_RESPONSE_BYTES = 64 << 20

SPARE_RESPONSE_BYTES = 1 << 20
"""Of an answer beyond its texts: what servers tell beside them."""

BYTES_WRITTEN = 12
"""Of an answer for each byte of a text: JSON may write it as \\u0000, and a reasoning may stand there twice."""

_most_bytes: ContextVar[int] = ContextVar("most_bytes", default=MAX_RESPONSE_BYTES)
"""Bytes of the answer to the request that is under way."""

UNCOMPRESSED_HEADERS = {"accept-encoding": "identity"}
"""The header that asks for responses that are not packed: a few packed bytes may stand for any number."""

PLACEHOLDER_KEY = "EMPTY"
"""Sent where there is no key: the client insists on one, and keeps to it rather than the environment's."""


class ResponseRefused(Exception):
    """A response that is not read to its end, and why."""


class RedirectRefused(ResponseRefused):
    """A response that points to another server."""


async def read_bounded(response: Any) -> None:
    """Read a response's body before the client does; a hook of `httpx.AsyncClient`.

    ResponseRefused where it is packed, or longer than the answer to the request that is under way may be.
    """
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise ResponseRefused(
            f"its answer is packed ({short_repr(packed, 40)}), which nobody asked for"
        )
    body, most = bytearray(), min(_most_bytes.get(), MAX_RESPONSE_BYTES)
    async for part in response.aiter_raw():
        if len(body) + len(part) > most:
            raise ResponseRefused(f"its answer has more than {most:,} bytes")
        body += part
    response._content = bytes(body)  # where the client looks before it reads
    # as JSON is; the server could name what is no encoding of texts
    response.encoding = "utf-8"


async def refuse_elsewhere(response: Any) -> None:
    """Raise RedirectRefused where a response points to another server; a hook of `httpx.AsyncClient`.

    Whoever follows takes all prompts and pictures there. The same server with encryption is no other.
    """
    if not response.has_redirect_location:
        return
    own, target = response.url, response.url.join(response.headers["location"])
    encrypted = own.scheme == "http" and target.scheme == "https"
    if target.host != own.host or not (
        encrypted or (target.scheme == own.scheme and target.port == own.port)
    ):
        raise RedirectRefused(
            f"it points to another server, {target.scheme}://{target.netloc.decode('ascii', 'replace')[:80]}:"
            " name that by --base-url, or allow it by --follow-redirects"
        )


def connected(endpoint: Endpoint, seconds: float, connect_seconds: float) -> Any:
    """Return OpenAI's client of one server, which makes each request once and sends the key of its server only.

    seconds: of a whole answer; connect_seconds: of reaching the server.
    """
    import openai

    hooks = [read_bounded] if endpoint.follow_redirects else [refuse_elsewhere, read_bounded]
    http_client = openai.DefaultAsyncHttpxClient(
        # The proxy of the environment cannot reach this machine.
        trust_env=not endpoint.loopback,
        event_hooks={"response": hooks},
        # What is sent behind an answer would be taken for that of the connection's next request.
        limits=openai.DEFAULT_CONNECTION_LIMITS.__class__(max_keepalive_connections=0),
    )
    return openai.AsyncOpenAI(
        api_key=PLACEHOLDER_KEY,
        base_url=endpoint.url,
        default_headers={**UNCOMPRESSED_HEADERS, **endpoint.headers},
        max_retries=0,
        timeout=openai.Timeout(seconds, connect=connect_seconds),
        http_client=http_client,
    )


RETRYABLE_STATUSES = frozenset({408, 409, 425, 429})
"""Statuses below 500 that another attempt may cure."""


class FaultKind(StrEnum):
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

    kind: FaultKind
    reason: str
    wait: float | None = None
    param: str | None = None
    refusal: str = ""


class ServerClient:
    """The connections to one server."""

    def __init__(self, endpoint: Endpoint, options: OpenAIOptions) -> None:
        self.endpoint = endpoint
        self._timeout = options.timeout
        self._client = connected(endpoint, options.timeout, options.connect_timeout)

    async def chat(
        self,
        model: str,
        messages: Sequence[Mapping[str, Any]],
        fields: Mapping[str, Any],
        text_bytes: int = MAX_RESPONSE_BYTES,
    ) -> tuple[Reply, float | None]:
        """Make one request; return the answer, and for how long a limit is used up now, in seconds.

        text_bytes: of all texts that it asks for, at the most. ServerFault where there is no whole answer in time.
        """
        import openai

        _most_bytes.set(SPARE_RESPONSE_BYTES + BYTES_WRITTEN * text_bytes)
        try:
            async with asyncio.timeout(self._timeout):
                raw = await self._client.chat.completions.with_raw_response.create(
                    model=model, messages=messages, extra_body=dict(fields)
                )
        except TimeoutError:
            raise ServerFault(FaultKind.SLOW, f"no whole reply in {self._timeout:g} s") from None
        except (openai.OpenAIError, ResponseRefused) as error:
            raise fault_of(error, self.endpoint) from None
        try:
            answer = read_answer(parse_json(raw.text))
        except ValueError:
            answer = None
        if answer is None:
            shown = first_words(raw.text, self.endpoint.secrets)
            raise ServerFault(
                FaultKind.GARBAGE, f"it answered with something else than a chat: {shown!r}"
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
    if isinstance(cause, RedirectRefused):
        return ServerFault(FaultKind.BARRED, str(cause))
    if isinstance(cause, ResponseRefused):
        return ServerFault(FaultKind.GARBAGE, str(cause))
    if name == "ConnectTimeout":
        return ServerFault(FaultKind.UNREACHABLE, "it did not answer in time")
    if name == "ConnectError":
        return ServerFault(FaultKind.UNREACHABLE, _connect_reason(cause))
    if isinstance(error, openai.APITimeoutError):
        return ServerFault(FaultKind.SLOW, "no reply in time")
    if isinstance(error, openai.APIConnectionError):
        return ServerFault(FaultKind.CLOSED, f"the connection broke off ({name})")
    raise error


def _connect_reason(error: BaseException | None) -> str:
    """Return why a connection failed, in the words of the operating system where it gave any."""
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
    """Return the fault that a status other than 200 means. secrets: words to be left out of the reason."""
    words, param, code = _error_of(text)
    shown = first_words(words, secrets)
    reason = f"status {status}: {shown}" if shown else f"status {status}"
    wait = retry_after(headers)
    if status == 429 and ("insufficient_quota" in code or (wait or 0) > MAX_COOLDOWN_SECONDS):
        return ServerFault(FaultKind.BARRED, reason + (f" (wait {wait:.0f} s)" if wait else ""))
    if status == 429 or (status == 503 and wait is not None):
        return ServerFault(FaultKind.BUSY, reason, wait)
    if status in RETRYABLE_STATUSES or status >= 500:
        return ServerFault(FaultKind.BROKEN, reason, wait)
    if status in (401, 403, 404):
        return ServerFault(FaultKind.BARRED, reason)
    return ServerFault(FaultKind.REFUSED, reason, param=param, refusal=words)


def first_words(text: str, secrets: Sequence[str] = (), most: int = 300) -> str:
    """Return the beginning of a server's text in one line, its secrets blacked out."""
    return shortened(" ".join(without_keys(without(text, secrets)).split()), most)


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
