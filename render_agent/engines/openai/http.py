"""One call of a server: its answer, or what went wrong and what can be done about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from render_agent.engines.openai.options import Endpoint, OpenAIOptions
from render_agent.engines.openai.rate_limit import LONGEST_PAUSE, asked_wait, spent_wait
from render_agent.engines.openai.requests import Answer, read_answer
from render_agent.engines.openai.response_limits import PLAIN, AnswerRefused, read_bounded_later
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


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a call gave no answer.

    reason: in words, without secrets. wait: seconds that the server asks for. param, refusal: the
    field that a refusal names, and all its words.
    """

    kind: Kind
    reason: str
    wait: float | None = None
    param: str | None = None
    refusal: str = ""

    @property
    def curable(self) -> bool:
        """Whether another attempt may succeed."""
        return self.kind not in (Kind.REFUSED, Kind.BARRED)


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer, and how long the server should be left alone because a limit is used up."""

    answer: Answer
    wait: float | None


def make_client(endpoint: Endpoint, options: OpenAIOptions) -> Any:
    """Return an `openai.AsyncOpenAI` that makes each request once and sends the key of its server only."""
    import openai

    return openai.AsyncOpenAI(
        api_key=NO_KEY,
        base_url=endpoint.url,
        default_headers={**PLAIN, **endpoint.headers},
        max_retries=0,
        timeout=openai.Timeout(options.timeout, connect=options.connect_timeout),
        # The proxy of the environment cannot reach this machine.
        http_client=openai.DefaultAsyncHttpxClient(
            trust_env=not endpoint.loopback, event_hooks={"response": [read_bounded_later]}
        ),
    )


async def call(
    client: Any,
    endpoint: Endpoint,
    model: str,
    messages: Sequence[Mapping[str, Any]],
    fields: Mapping[str, Any],
    timeout: float,
) -> Answered | Fault:
    """Make one request. timeout: seconds until its whole reply is there."""
    import openai

    try:
        async with asyncio.timeout(timeout):
            raw = await client.chat.completions.with_raw_response.create(
                model=model, messages=messages, extra_body=dict(fields)
            )
    except TimeoutError:
        return Fault(Kind.SLOW, f"no whole reply in {timeout:g} s")
    except openai.APIStatusError as error:
        return status_fault(
            error.status_code, error.response.headers, error.response.text, endpoint.secrets
        )
    except openai.APIConnectionError as error:
        return connection_fault(error)
    except AnswerRefused as error:
        return Fault(Kind.GARBAGE, str(error))
    try:
        answer = read_answer(parse_json(raw.text))
    except ValueError:
        answer = None
    if answer is None:
        shown = first_words(raw.text, endpoint.secrets)
        return Fault(Kind.GARBAGE, f"it answered with something else than a chat: {shown!r}")
    return Answered(answer, spent_wait(raw.headers))


def connection_fault(error: Exception) -> Fault:
    """Return why no answer came over a connection, from an `openai.APIConnectionError`."""
    import openai

    cause = error.__cause__
    if isinstance(cause, AnswerRefused):
        return Fault(Kind.GARBAGE, str(cause))
    name = type(cause or error).__name__
    if name == "ConnectTimeout":
        return Fault(Kind.UNREACHABLE, "it did not answer in time")
    if name == "ConnectError":
        return Fault(Kind.UNREACHABLE, _why_unreached(cause))
    if isinstance(error, openai.APITimeoutError):
        return Fault(Kind.SLOW, "no reply in time")
    return Fault(Kind.CLOSED, f"the connection broke off ({name})")


def _why_unreached(error: BaseException | None) -> str:
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
) -> Fault:
    """Return what a status other than 200 says. secrets: words to be left out of the reason."""
    words, param, code = _error_of(text)
    shown = first_words(words, secrets)
    reason = f"status {status}: {shown}" if shown else f"status {status}"
    wait = asked_wait(headers)
    if status == 429 and ("insufficient_quota" in code or (wait or 0) > LONGEST_PAUSE):
        return Fault(Kind.BARRED, reason + (f" (wait {wait:.0f} s)" if wait else ""))
    if status == 429 or (status == 503 and wait is not None):
        return Fault(Kind.BUSY, reason, wait)
    if status in AGAIN or status >= 500:
        return Fault(Kind.BROKEN, reason, wait)
    if status in (401, 403, 404):
        return Fault(Kind.BARRED, reason)
    return Fault(Kind.REFUSED, reason, param=param, refusal=words)


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
