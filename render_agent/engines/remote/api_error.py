"""Failed requests: what an error says, and what it means for this request and for the server."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from email.utils import parsedate_to_datetime
from functools import cached_property
from math import isfinite
from time import time
from traceback import walk_tb
from typing import Any

from render_agent.dialogue.chat import replace_unencodable
from render_agent.dialogue.events import SHORTER_PROMPTS
from render_agent.engines.remote.endpoints import Endpoint
from render_agent.engines.remote.phrases import (
    MAX_ERROR_CHARS,
    Fault,
    Meaning,
    fault_of_status,
)
from render_agent.engines.remote.response_bodies import error_message, parse_body
from render_agent.util.reasons import first_line, truncate
from render_agent.util.sanitize import redact_keys, redact_secrets

MAX_RETRY_AFTER_SECONDS = 300.0  # a server that demands a longer wait counts as exhausted

RETRY_IN = re.compile(
    r"""(?:retry ?Delay["']?: ?["']|try (?:again )?(?:in|after) )((?:\d{1,9}(?:\.\d+)? ?(?:h|ms|m|s)[a-z]*[ ,]*)+)""",
    re.IGNORECASE,
)
DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(h|ms|m|s)", re.IGNORECASE)
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}  # per unit

# Base classes of the exceptions of the SDKs, of their HTTP libraries and of Python.
TIMEOUTS = {"TimeoutError", "TimeoutException", "APITimeoutError"}
CONNECTION_ERRORS = {"APIConnectionError", "RequestError", "OSError", "EndOfStream"}
UNCONNECTED = {"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "gaierror"}
SDKS = ("openai", "anthropic", "google", "httpx", "httpx2")


class RequestError(Exception):
    """A single request failed; others may succeed."""


class ApiError(Exception):
    """A failed request: its HTTP status (0 without a response), or what failed: `timeout`, `unreachable`,
    `interrupted` or `unreadable`.
    """

    def __init__(
        self,
        reason: str,
        status: int = 0,
        text: str = "",
        headers: Mapping[str, str] | None = None,
        failure: str | None = None,
    ) -> None:
        super().__init__(reason)
        self.status, self.text, self.headers = status, text, headers or {}
        self.failure = failure

    @classmethod
    def of(cls, error: Exception) -> ApiError:
        """Return the failed request behind an exception of an SDK; raise an exception of this program again.

        SDKs raise any exception while they read an odd response, which is the fault of that request alone.
        """
        chain = _causes(error)
        names = {kind.__name__ for cause in chain for kind in type(cause).__mro__}
        for cause in chain:
            if isinstance(cause, ApiError):
                return cause
            if response := getattr(cause, "response", None):
                status = response.status_code
                return cls(f"status {status}", status, response.text, response.headers)
        if names & TIMEOUTS:
            return cls("timeout", failure="unreachable" if names & UNCONNECTED else "timeout")
        if own := next(filter(_is_own, chain), None):
            raise own
        if not names & CONNECTION_ERRORS:
            failed = cls(first_line(error), failure="unreadable" if "ValueError" in names else None)
            failed.__cause__ = error
            return failed
        # The innermost cause is the error of the operating system; asyncio replaces its message with the address.
        system = [cause for cause in chain if isinstance(cause, OSError) and cause.strerror]
        number = (system[-1].errno or 0) if system else 0
        reason = os.strerror(number) if number > 0 else system and system[-1].strerror
        failure = "unreachable" if names & UNCONNECTED else "interrupted"
        return cls(reason or "the connection ended early", failure=failure)

    @cached_property
    def body(self) -> Any:
        """The parsed body of the response, or its text if that is not JSON."""
        body = parse_body(self.text)
        return self.text if body is None else body

    @cached_property
    def retry_after(self) -> float | None:
        """Seconds to wait, as stated by the server in a header or in the body; None if it does not say."""
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            value = self.headers.get(name, "")
            with suppress(ValueError):
                if isfinite(seconds := float(value) * unit):
                    return max(0.0, seconds)
            with suppress(ValueError, TypeError, LookupError, ArithmeticError, OSError):
                return max(0.0, parsedate_to_datetime(value).timestamp() - time())
        match = RETRY_IN.search(self.text, 0, MAX_ERROR_CHARS)
        parts = DURATION.findall(match[1]) if match else []
        return sum(float(n) * SECONDS[unit.lower()] for n, unit in parts) if parts else None

    @cached_property
    def meaning(self) -> Meaning | None:
        """What the words of a rejection say; None if they are in no row of the table."""
        if not 400 <= self.status < 500:
            return None
        # Messages of ordinary rate limits may recommend shorter prompts, and mention the quota.
        unless = {
            Meaning.TOO_LONG: self.status == 429,
            Meaning.EXHAUSTED_UNLESS_TIMED: self.retry_after is not None,
        }
        return next((row for row in Meaning if not unless.get(row) and row.is_in(self.text)), None)

    @cached_property
    def fault(self) -> Fault:
        """What the error means."""
        if not self.status:
            return Fault.TEMPORARY if self.failure else Fault.REQUEST
        if self.meaning is not None:
            return self.meaning.fault
        fault = fault_of_status(self.status)
        if fault.is_final or fault is Fault.TOO_LONG:
            return fault
        # The header of OpenAI's and Anthropic's servers says whether the same request may succeed.
        stated = {"true": True, "false": False}.get(self.headers.get("x-should-retry", ""))
        if not (fault.is_temporary if stated is None else stated):
            return Fault.REQUEST
        if (self.retry_after or 0) > MAX_RETRY_AFTER_SECONDS:
            return Fault.EXHAUSTED
        return fault if fault.is_temporary else Fault.TEMPORARY

    def describe(self, endpoint: Endpoint) -> str:
        """Describe the error, without secrets: the server's own sentence, and the advice of the table."""
        if not self.status:
            return first_words(str(self), endpoint.secrets)
        if 300 <= self.status < 400:
            message = f"redirect to {self.headers.get('location', '')}; if that is the server, pass it as --base-url"
        else:
            message = error_message(self.body) or self.text
        reason = f"status {self.status}: {first_words(message, endpoint.secrets).rstrip('.')}"
        return "; ".join(filter(None, (reason, self._advice(endpoint))))

    def _advice(self, endpoint: Endpoint) -> str:
        meaning, path = self.meaning, endpoint.service.path
        is_refused = self.status == 403 and meaning is None
        if self.status == 401 or is_refused or meaning is Meaning.WRONG_KEY:
            return endpoint.key_source
        if self.fault is Fault.TOO_LONG:
            return SHORTER_PROMPTS
        if self.status == 404 and meaning is None and not endpoint.url.endswith(path):
            return f"check whether the address must end in {path}"
        return "" if meaning is None else meaning.advice

    def report(self, endpoint: Endpoint) -> str:
        """Say what the server did with the request."""
        is_rejected = self.status and not self.fault.is_temporary
        verb = "rejected the request" if is_rejected else "gave no reply"
        return f"{endpoint.url} {verb} ({self.describe(endpoint)})"


@asynccontextmanager
async def sdk_call(seconds: float) -> AsyncIterator[None]:
    """Limit the time of a call of an SDK, and raise ApiError if it fails."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except Exception as error:  # noqa: BLE001 - SDKs raise any exception
        failed = ApiError.of(error)
        raise failed from failed.__cause__


def _is_own(error: BaseException) -> bool:
    """True if this program raised an exception, not an SDK that it called."""
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    packages = [frame.f_globals.get("__name__", "").partition(".")[0] for frame in frames]
    return (
        next((p for p in reversed(packages) if p in ("render_agent", *SDKS)), "") == "render_agent"
    )


def _causes(error: BaseException | None) -> list[BaseException]:
    """Return an exception and its causes, outermost first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or error.__cause__ or error.__context__
    return chain


def first_words(text: str, secrets: Sequence[str] = (), max_chars: int = 300) -> str:
    """Return the first `max_chars` characters of a server's text on one line, with secrets redacted."""
    words = " ".join(redact_keys(redact_secrets(text, secrets)).split())
    return replace_unencodable(truncate(words, max_chars))
