"""The HTTP client for a server: limits the response size, refuses redirects, and redacts secrets in errors."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
from collections.abc import Sequence
from typing import Any

from render_agent.engines.openai.endpoints import HOSTED_HOST, KEY_VARIABLES, Endpoint
from render_agent.engines.openai.openai_options import OpenAIOptions
from render_agent.engines.openai.responses import error_message, normalize
from render_agent.errors import SetupError
from render_agent.util.coroutines import run_in_thread
from render_agent.util.reasons import truncate
from render_agent.util.redact import redact_keys, without
from render_agent.util.safe_parse import parse_json
from render_agent.util.sanitize import escape_line

LOG = logging.getLogger(__name__)

MAX_RESPONSE_BYTES = 16 << 20
LOOK_UP_SECONDS = 30.0  # for all requests to a server before a run
MAX_LISTED = 20  # names of models in a note
MODEL_FIELDS = ("owned_by", "max_model_len", "root")  # fields of /v1/models in the run record
PLACEHOLDER_KEY = "EMPTY"  # sent without a key: the SDK requires one and would read the environment


def make_client(endpoint: Endpoint, options: OpenAIOptions, timeout: float | None = None) -> Any:
    """Return an SDK client for one server, which retries failed requests.

    Redirects are not followed, because they would send the key and the prompts to another server. A response that is
    compressed, too large or too slow is an error without a retry. An error inside a success gets the status of its code.

    Args:
        endpoint: The server.
        options: The options.
        timeout: Seconds per request without retries; None uses the options.
    """
    import openai

    seconds = timeout or options.timeout

    async def read_bounded(response: Any) -> None:
        """Read the body of a response before the SDK does."""
        if response.headers.get("content-encoding", "identity").strip().lower() != "identity":
            raise openai.OpenAIError("the response is compressed, which was not requested")
        body = bytearray()
        try:
            async with asyncio.timeout(seconds):
                async for part in response.aiter_raw():
                    body += part
                    if len(body) > MAX_RESPONSE_BYTES:
                        raise openai.OpenAIError(
                            f"the response is larger than {MAX_RESPONSE_BYTES:,} bytes"
                        )
        except TimeoutError:
            raise openai.OpenAIError(f"no complete response within {seconds:g} s") from None
        # httpx does not read again if _content is set
        response.status_code, response._content = normalize(response.status_code, bytes(body))
        response.encoding = "utf-8"

    http_client = openai.DefaultAsyncHttpxClient(
        trust_env=not endpoint.loopback,  # a proxy cannot reach this machine
        follow_redirects=False,
        event_hooks={"response": [read_bounded]},
        # Surplus bytes after a response would be read as the response to the connection's next request.
        limits=openai.DEFAULT_CONNECTION_LIMITS.__class__(max_keepalive_connections=0),
    )
    return openai.AsyncOpenAI(
        api_key=PLACEHOLDER_KEY,
        base_url=endpoint.url,
        default_headers={"accept-encoding": "identity", **endpoint.headers},
        max_retries=options.retries if timeout is None else 0,
        timeout=openai.Timeout(seconds, connect=options.connect_timeout),
        http_client=http_client,
    )


def describe_error(error: Exception, endpoint: Endpoint) -> str:
    """Describe an error of the SDK, without secrets."""
    import openai

    if isinstance(error, openai.APIStatusError):
        if error.response.is_redirect:
            target = error.response.headers.get("location", "")
            message = f"redirect to {target}; pass that address as --base-url"
        else:
            message = error_message(error_body(error)) or error.response.text
        reason = f"status {error.status_code}: {first_words(message, endpoint.secrets)}"
        if error.status_code == 401:
            return f"{reason}; {key_source(endpoint)}"
        if error.status_code == 404 and not endpoint.url.endswith("/v1"):
            return f"{reason}; check whether the address must end in /v1"
        return reason
    if not isinstance(error, openai.APIConnectionError):
        return str(error)
    if isinstance(error, openai.APITimeoutError):
        return "timeout"
    cause: BaseException | None = error
    reason = "connection failed"
    while cause is not None:  # the error of the operating system is the innermost cause
        if isinstance(cause, OSError) and cause.strerror:
            # asyncio replaces the system's message with the address
            number = cause.errno or 0
            reason = os.strerror(number) if number > 0 else cause.strerror
        inner = cause.exceptions[0] if isinstance(cause, BaseExceptionGroup) else None
        cause = inner or cause.__cause__ or cause.__context__
    return reason


def first_words(text: str, secrets: Sequence[str] = (), most: int = 300) -> str:
    """Return the first `most` characters of a server's text on one line, with secrets redacted."""
    return truncate(" ".join(redact_keys(without(text, secrets)).split()), most)


def key_source(endpoint: Endpoint) -> str:
    """Name the environment variable of the key that a server got, or those that can hold one."""
    if endpoint.key_variable is not None:
        return f"the key of {endpoint.key_variable} was sent: check it"
    if endpoint.headers:
        return "the password of OPENAI_BASE_URL was sent: check it"
    return f"no key was sent: set {' or '.join(KEY_VARIABLES)}"


def rejects(error: Exception, messages: re.Pattern[str]) -> bool:
    """True if a server rejected a request with one of some messages."""
    is_rejection = 400 <= getattr(error, "status_code", 0) < 500
    return is_rejection and messages.search(json.dumps(error_body(error))) is not None


def error_body(error: Exception) -> Any:
    """Return the parsed body of an error response, or its text if that is not JSON; None without a response."""
    response = getattr(error, "response", None)
    if response is None:
        return None
    try:
        return parse_json(response.text)
    except (ValueError, RecursionError):
        return response.text


def query_server(endpoint: Endpoint, model: str, options: OpenAIOptions) -> dict[str, Any]:
    """Return what a server reports about itself and the model.

    Returns:
        `url`, and if available `owned_by`, `max_model_len`, `root` and `version`; `note` if the server does not list
        the model, which many servers accept under other names.

    Raises:
        SetupError: The server is unreachable or rejects the key.
    """
    return run_in_thread(_look_up(endpoint, model, options))


async def _look_up(endpoint: Endpoint, model: str, options: OpenAIOptions) -> dict[str, Any]:
    async with make_client(endpoint, options, LOOK_UP_SECONDS) as client:
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                served = await _served(client, endpoint)
                version = await _version(client, endpoint)
        except TimeoutError:
            raise SetupError(
                f"{endpoint.url} sent no complete response within {LOOK_UP_SECONDS:g} s. Check the address,"
                " and that the server is not overloaded."
            ) from None
    fields = {**{name: served.get(model, {}).get(name) for name in MODEL_FIELDS}, **version}
    if served and model not in served:
        names = ", ".join(sorted(escape_line(name[:80]) for name in served)[:MAX_LISTED])
        fields["note"] = f"{endpoint.url} does not list {model}; it lists {names}"
    return {
        "url": endpoint.url,
        **{
            name: first_words(value, endpoint.secrets) if isinstance(value, str) else value
            for name, value in fields.items()
            if isinstance(value, str | int)
        },
    }


async def _served(client: Any, endpoint: Endpoint) -> dict[str, dict[str, Any]]:
    """Return the models that a server lists, by name."""
    import openai

    try:
        raw = await client.models.with_raw_response.list()
        data = parse_json(raw.text)["data"]
        return {entry["id"]: entry for entry in data if isinstance(entry["id"], str)}
    except openai.OpenAIError as error:
        _raise_if_unusable(error, endpoint)
        LOG.warning(
            "%s does not list its models: %s", endpoint.url, describe_error(error, endpoint)
        )
    except (ValueError, KeyError, TypeError):
        excerpt = first_words(raw.text, endpoint.secrets)
        LOG.warning("%s does not list its models: %r", endpoint.url, excerpt)
    return {}


def _raise_if_unusable(error: Exception, endpoint: Endpoint) -> None:
    """Raise SetupError if an error means that the server cannot answer any request."""
    import openai

    status, reason = getattr(error, "status_code", 0), describe_error(error, endpoint)
    if status == 401:
        raise SetupError(f"{endpoint.url} rejected the request ({reason}).") from None
    if status == 403:
        source = key_source(endpoint)
        raise SetupError(f"{endpoint.url} rejected the request ({reason}); {source}.") from None
    if 300 <= status < 400 or status in (502, 503, 504):
        raise SetupError(f"{endpoint.url} cannot be used: {reason}") from None
    if isinstance(error, openai.APIConnectionError):
        raise SetupError(
            f"{endpoint.url} cannot be reached ({reason}). Check that the server is running."
        ) from None


async def _version(client: Any, endpoint: Endpoint) -> dict[str, str]:
    """Return the version, which vLLM and SGLang report; empty for other servers."""
    import openai

    if endpoint.host == HOSTED_HOST:
        return {}
    try:
        body = await client.get(endpoint.url.removesuffix("/v1") + "/version", cast_to=object)
    except (openai.OpenAIError, ValueError, RecursionError):
        return {}  # most servers do not report one
    version = body.get("version") if isinstance(body, dict) else None
    return {"version": version} if isinstance(version, str) else {}
