"""Failed requests: what an error says, and what it means for this request and for the server."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import Enum
from math import isfinite
from time import time
from typing import Any

from render_agent.dialogue.events import SHORTER_PROMPTS
from render_agent.engines.remote.endpoints import Endpoint
from render_agent.engines.remote.response_bodies import (
    FILTERED,
    NO_IMAGES,
    NO_RESULT_IMAGES,
    NO_TOOLS,
    THOUGHT_MISSING,
    TOO_LONG,
    error_message,
)
from render_agent.util.reasons import truncate
from render_agent.util.redact import redact_keys, redact_secrets
from render_agent.util.safe_parse import parse_json

MAX_RETRY_AFTER_SECONDS = 300.0  # a server that demands a longer wait counts as exhausted

# Messages and codes of an account that cannot pay for any request, or has used up its quota of the day.
EXHAUSTED = re.compile(
    r"insufficient_quota|billing_(?:hard_limit|not_active)|credit balance|spend(?:ing)? (?:limit|cap)|PerDay"
    r"|insufficient (?:credit|balance|fund)|payment required",
    re.IGNORECASE,
)
# The same words are used for rate limits, which say when to send the request again.
EXHAUSTED_UNLESS_TIMED = re.compile(
    r"exceeded your (?:current )?quota|check your .{0,12}billing", re.I
)
REQUEST_TOO_LARGE = re.compile("request.?too.?large", re.IGNORECASE)  # for any rate limit
RETRY_IN = re.compile(
    r"""(?:retry ?Delay["']?: ?["']|try (?:again )?(?:in|after) )((?:\d+(?:\.\d+)? ?(?:h|ms|m|s)[a-z]*[ ,]*)+)""",
    re.IGNORECASE,
)
DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(h|ms|m|s)", re.IGNORECASE)
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}  # per unit

# Errors of models that lack a feature -> the option that avoids it.
UNSUPPORTED = {
    NO_TOOLS: "--reply-protocol json",
    THOUGHT_MISSING: "--reply-protocol json",
    NO_RESULT_IMAGES: "--engine-option result_images=false",
}

SDKS = ("openai", "anthropic", "google")  # modules
# Base classes of the exceptions of a connection, in the SDKs and their HTTP libraries.
NETWORK_ERRORS = {"APIConnectionError", "TransportError", "RequestError", "OSError", "EndOfStream"}


class Fault(Enum):
    """What an error means."""

    RATE_LIMITED = "rate limit"
    OVERLOADED = "overloaded"
    TEMPORARY = "temporary fault"
    EXHAUSTED = "quota exhausted"
    REJECTED = "server unusable"  # wrong key, wrong address, no images: no request can succeed
    FILTERED = "content filter"  # the filter rejected the prompt
    TOO_LONG = "prompt too long"  # for the model's context window, or too many images
    REQUEST = "request rejected"  # another fault of this request alone

    @property
    def is_temporary(self) -> bool:
        """True if the same request may succeed later."""
        return self in (Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.TEMPORARY)

    @property
    def is_final(self) -> bool:
        """True if no other request to the server can succeed."""
        return self in (Fault.EXHAUSTED, Fault.REJECTED)


class ApiError(Exception):
    """A failed request.

    Attributes:
        status: HTTP status; 0 without a usable response.
        text: Body of the response.
        headers: Headers of the response.
        failure: What failed without a usable response: `timeout`, `unreachable` or `unreadable`; None otherwise.
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
        """Return the failed request behind an exception of an SDK; raise any other exception again."""
        chain = _causes(error)
        for cause in chain:
            if isinstance(cause, ApiError):
                return cause
        names = {kind.__name__ for cause in chain for kind in type(cause).__mro__}
        if "TimeoutException" in names:
            return cls("timeout", failure="timeout")
        if not names & NETWORK_ERRORS:
            if type(error).__module__.partition(".")[0] not in SDKS:
                raise error
            return cls(str(error) or type(error).__name__)
        reason = "connection failed"
        for cause in chain:  # the error of the operating system is the innermost cause
            if isinstance(cause, OSError) and cause.strerror:
                # asyncio replaces the system's message with the address
                number = cause.errno or 0
                reason = os.strerror(number) if number > 0 else cause.strerror
        return cls(reason, failure="unreachable")

    @property
    def body(self) -> Any:
        """The parsed body of the response, or its text if that is not JSON; None without a response."""
        if not self.status:
            return None
        try:
            return parse_json(self.text)
        except ValueError:
            return self.text

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait, as stated by the server in a header or in the body; None if it does not say."""
        for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
            value = self.headers.get(name, "")
            with suppress(ValueError):
                if isfinite(seconds := float(value) * unit):
                    return max(0.0, seconds)
            try:
                return max(0.0, parsedate_to_datetime(value).timestamp() - time())
            except ValueError:
                pass
        match = RETRY_IN.search(self.text)
        parts = DURATION.findall(match[1]) if match else []
        return sum(float(n) * SECONDS[unit.lower()] for n, unit in parts) if parts else None

    @property
    def fault(self) -> Fault:
        """What the error means."""
        status, text = self.status, self.text
        if not status:
            return Fault.TEMPORARY if self.failure else Fault.REQUEST
        is_rejection = 400 <= status < 500
        if is_rejection and FILTERED.search(text):
            return Fault.FILTERED
        # Messages of ordinary rate limits may recommend shorter prompts, too.
        if status == 413 or (
            is_rejection
            and (TOO_LONG if status != 429 else REQUEST_TOO_LARGE).search(text)
            and not NO_IMAGES.search(text)
        ):
            return Fault.TOO_LONG
        wait = self.retry_after
        if is_rejection and (
            status == 402
            or EXHAUSTED.search(text)
            or (wait is None and EXHAUSTED_UNLESS_TIMED.search(text))
        ):
            return Fault.EXHAUSTED
        if (
            status in (401, 403, 404)
            or 300 <= status < 400
            or (is_rejection and any(each.search(text) for each in (NO_IMAGES, *UNSUPPORTED)))
        ):
            return Fault.REJECTED
        # The header of OpenAI's and Anthropic's servers says whether the same request may succeed.
        may_retry = {"true": True, "false": False}.get(self.headers.get("x-should-retry", ""))
        if may_retry is None:
            may_retry = status in (408, 409, 424, 425, 429, 498, 499) or status >= 500
        if not may_retry:
            return Fault.REQUEST
        if wait is not None and wait > MAX_RETRY_AFTER_SECONDS:
            return Fault.EXHAUSTED
        names = {429: Fault.RATE_LIMITED, 503: Fault.OVERLOADED, 529: Fault.OVERLOADED}
        return names.get(status, Fault.TEMPORARY)

    def describe(self, endpoint: Endpoint) -> str:
        """Describe the error, without secrets."""
        if not self.status:
            return str(self)
        if 300 <= self.status < 400:
            message = f"redirect to {self.headers.get('location', '')}; if that is the server, pass it as --base-url"
        else:
            message = error_message(self.body) or self.text
        reason = f"status {self.status}: {first_words(message, endpoint.secrets).rstrip('.')}"
        if self.status == 401:
            return f"{reason}; {endpoint.key_source}"
        if self.fault is Fault.TOO_LONG:
            return f"{reason}; {SHORTER_PROMPTS}"
        for pattern, option in UNSUPPORTED.items():
            if pattern.search(message):
                return f"{reason}; pass {option}"
        if (
            self.status == 404
            and endpoint.service.path
            and not endpoint.url.endswith(endpoint.service.path)
        ):
            return f"{reason}; check whether the address must end in {endpoint.service.path}"
        return reason


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
    return truncate(" ".join(redact_keys(redact_secrets(text, secrets)).split()), max_chars)
