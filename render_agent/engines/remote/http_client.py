"""HTTP for the SDKs: limits the response size, refuses redirects, and checks servers before a run."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from render_agent.engines.remote.api_error import ApiError, first_words, sdk_call
from render_agent.engines.remote.endpoints import HOSTED_HOST, Endpoint
from render_agent.engines.remote.phrases import Fault
from render_agent.engines.remote.remote_options import RemoteOptions
from render_agent.engines.remote.response_bodies import normalize
from render_agent.errors import SetupError
from render_agent.util.coroutines import run_in_thread
from render_agent.util.safe_parse import parse_json
from render_agent.util.sanitize import escape_line

if TYPE_CHECKING:
    from render_agent.engines.remote.chat_api import ChatApi

LOG = logging.getLogger(__name__)

GZIP = b"\x1f\x8b"
ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")  # at different levels
MAX_RESPONSE_BYTES = 16 << 20
MAX_JOB_BYTES = 512 << 20  # of the results of a batch job
LOOK_UP_SECONDS = 30.0  # per request before a run
MAX_LISTED = 20  # names of models in a note
MODEL_FIELDS = ("owned_by", "max_model_len", "root")  # fields of /v1/models in the run record


def http_arguments(endpoint: Endpoint) -> dict[str, Any]:
    """Return the arguments of the HTTP client of an SDK, which never follows redirects: they would send the key and
    the prompts to another server.
    """
    most = MAX_JOB_BYTES if endpoint.for_jobs else MAX_RESPONSE_BYTES

    async def read_bounded(response: Any) -> None:
        """Read the body of a response before the SDK does; an error inside a success gets the status of its code."""
        body = bytearray()
        async for part in response.aiter_raw():
            body += part
            if len(body) > most:
                raise ApiError(f"the response is larger than {most:,} bytes")
        status, content = response.status_code, decompress(bytes(body), most)
        if not endpoint.for_jobs:
            status, content = normalize(status, content)
        # httpx does not read again if _content is set
        response.status_code, response._content = status, content
        response.encoding = "utf-8"

    return {
        "trust_env": not endpoint.loopback,  # a proxy cannot reach this machine
        "follow_redirects": False,
        "event_hooks": {"response": [read_bounded]},
    }


def decompress(body: bytes, most: int = MAX_RESPONSE_BYTES) -> bytes:
    """Return the content of a response that a proxy compressed, whatever its headers say. Raises ApiError if too large."""
    if not body.startswith((GZIP, *ZLIB)):
        return body
    inflater = zlib.decompressobj(wbits=47)  # gzip or zlib
    try:
        content = inflater.decompress(body, most)
    except zlib.error:
        return body
    if inflater.unconsumed_tail:
        raise ApiError(f"the response is larger than {most:,} bytes")
    return content


def sdk_client(
    sdk: Any, make: Callable[..., Any], endpoint: Endpoint, options: RemoteOptions
) -> Any:
    """Return a client of OpenAI's or Anthropic's SDK for one server, without retries."""
    http_client = sdk.DefaultAsyncHttpxClient(
        # Surplus bytes after a response would be read as the response to the connection's next request.
        limits=sdk.DEFAULT_CONNECTION_LIMITS.__class__(max_keepalive_connections=0),
        **http_arguments(endpoint),
    )
    return make(
        base_url=endpoint.url,
        default_headers={"accept-encoding": "identity", **endpoint.headers},
        max_retries=0,
        timeout=sdk.Timeout(options.timeout, connect=options.connect_timeout),
        http_client=http_client,
    )


def query_server(endpoint: Endpoint, api: ChatApi) -> dict[str, Any]:
    """Return what a server reports about itself and the model."""
    return run_in_thread(_look_up(endpoint, api))


async def _look_up(endpoint: Endpoint, api: ChatApi) -> dict[str, Any]:
    client = api.connect(endpoint)
    try:
        models = await _list_served_models(client, endpoint, api)
        version = await _version(client, endpoint)
    finally:
        await api.close(client)
    model = api.model
    fields = {**{name: models.get(model, {}).get(name) for name in MODEL_FIELDS}, **version}
    if models and model not in models:
        names = ", ".join(sorted(escape_line(name[:80]) for name in models)[:MAX_LISTED])
        fields["note"] = f"{endpoint.url} does not list {model}; it lists {names}"
    return {
        "url": endpoint.url,
        **{
            name: first_words(value, endpoint.secrets) if isinstance(value, str) else value
            for name, value in fields.items()
            if isinstance(value, str | int)
        },
    }


async def _list_served_models(
    client: Any, endpoint: Endpoint, api: ChatApi
) -> dict[str, dict[str, Any]]:
    """Return the models that a server lists, by name."""
    try:
        async with sdk_call(LOOK_UP_SECONDS):
            text = await api.list_models(client)
    except ApiError as error:
        _raise_if_unusable(error, endpoint)
        LOG.warning("%s does not list its models: %s", endpoint.url, error.describe(endpoint))
        return {}
    try:
        data = parse_json(text)["data"]
        return {entry["id"]: entry for entry in data if isinstance(entry["id"], str)}
    except (ValueError, KeyError, TypeError):
        excerpt = first_words(text, endpoint.secrets)
        LOG.warning("%s does not list its models: %r", endpoint.url, excerpt)
    return {}


def _raise_if_unusable(error: ApiError, endpoint: Endpoint) -> None:
    """Raise SetupError if an error means that the server cannot answer any request."""
    status, reason = error.status, error.describe(endpoint)
    if status == 401 or error.fault is Fault.EXHAUSTED:
        raise SetupError(f"{endpoint.url} rejected the request ({reason}).") from None
    if status == 403:
        source = endpoint.key_source
        raise SetupError(f"{endpoint.url} rejected the request ({reason}); {source}.") from None
    if 300 <= status < 400 or status in (502, 503, 504):
        raise SetupError(f"{endpoint.url} cannot be used: {reason}") from None
    # Servers of other addresses may not be able to describe models.
    if status == 404 and endpoint.url == endpoint.service.url:
        raise SetupError(
            f"{endpoint.url} does not have the model ({reason}). Set --model."
        ) from None
    if error.failure is not None:
        raise SetupError(
            f"{endpoint.url} cannot be reached ({reason}). Check that the server is running."
        ) from None


async def _version(client: Any, endpoint: Endpoint) -> dict[str, str]:
    """Return the version, which vLLM and SGLang report; empty for other servers."""
    if endpoint.service.engine != "openai" or endpoint.host == HOSTED_HOST:
        return {}
    try:
        async with sdk_call(LOOK_UP_SECONDS):
            body = await client.get(endpoint.url.removesuffix("/v1") + "/version", cast_to=object)
    except ApiError as error:
        LOG.debug("%s does not report its version: %s", endpoint.url, error)
        return {}
    version = body.get("version") if isinstance(body, dict) else None
    return {"version": version} if isinstance(version, str) else {}
