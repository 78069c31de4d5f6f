"""HTTP for the SDKs: limits the response size, refuses redirects, and checks servers before a run."""

from __future__ import annotations

import logging
import zlib
from typing import Any

from render_agent.engines.remote.api_error import ApiError, first_words, sdk_call
from render_agent.engines.remote.chat_api import ChatApi, RemoteOptions
from render_agent.engines.remote.endpoints import HOSTED_HOST, Endpoint
from render_agent.engines.remote.phrases import Fault
from render_agent.engines.remote.response_bodies import normalize
from render_agent.errors import SetupError
from render_agent.util.coroutines import run_in_thread
from render_agent.util.sanitize import escape_line

LOG = logging.getLogger(__name__)

GZIP = b"\x1f\x8b"
ZLIB = (b"\x78\x01", b"\x78\x9c", b"\x78\xda")  # at different levels
MAX_RESPONSE_BYTES = 16 << 20
MAX_JOB_BYTES = 512 << 20  # of the results of a batch job
LOOK_UP_SECONDS = 30.0  # per request before a run
MAX_LISTED = 20  # names of models in a note
# Settings in /server_info of SGLang and of vLLM (in its development mode) that make replies independent of the batch.
DETERMINISTIC_SETTINGS = ("enable_deterministic_inference", "VLLM_BATCH_INVARIANT")
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


def sdk_client(sdk: Any, make: Any, key: str, endpoint: Endpoint, options: RemoteOptions) -> Any:
    """Return a client of OpenAI's or Anthropic's SDK for one server, without retries."""
    http_client = sdk.DefaultAsyncHttpxClient(
        # Surplus bytes after a response would be read as the response to the connection's next request.
        limits=sdk.DEFAULT_CONNECTION_LIMITS.__class__(max_keepalive_connections=0),
        **http_arguments(endpoint),
    )
    return make(
        api_key=key,
        base_url=endpoint.url,
        default_headers={"accept-encoding": "identity", **endpoint.headers},
        max_retries=0,
        timeout=sdk.Timeout(options.timeout, connect=options.connect_timeout),
        http_client=http_client,
    )


def query_server(endpoint: Endpoint, api: ChatApi) -> dict[str, Any]:
    """Return what a server reports about itself and the model. Raises SetupError if it cannot be used."""
    return run_in_thread(_query(endpoint, api))


async def _query(endpoint: Endpoint, api: ChatApi) -> dict[str, Any]:
    client = api.connect(endpoint)
    try:
        listed = await _list_models(client, endpoint, api)
        version = await _version(client, endpoint)
        is_deterministic = version is not None and await _is_deterministic(client, endpoint)
    finally:
        await api.close(client)
    models = {entry["id"]: entry for entry in listed if isinstance(entry.get("id"), str)}
    own = models.get(api.model, {})
    fields = {**{name: own.get(name) for name in MODEL_FIELDS}, "version": version}
    if models and api.model not in models:
        names = ", ".join(sorted(escape_line(name[:80]) for name in models)[:MAX_LISTED])
        fields["note"] = f"{endpoint.url} does not list {api.model}; it lists {names}"
    texts = {k: first_words(v, endpoint.secrets) for k, v in fields.items() if isinstance(v, str)}
    numbers = {k: v for k, v in fields.items() if isinstance(v, int)}
    declared = {"deterministic": True} if is_deterministic else {}
    return {"url": endpoint.url, **texts, **numbers, **declared}


async def _list_models(client: Any, endpoint: Endpoint, api: ChatApi) -> list[dict[str, Any]]:
    try:
        async with sdk_call(LOOK_UP_SECONDS):
            return await api.list_models(client)
    except ApiError as error:
        if reason := _why_unusable(error, endpoint):
            raise SetupError(f"{endpoint.url} {reason}") from None
        LOG.warning("%s does not list its models: %s", endpoint.url, error.describe(endpoint))
    return []


def _why_unusable(error: ApiError, endpoint: Endpoint) -> str | None:
    """Return why a server cannot answer any request; None if it may."""
    status, reason = error.status, error.describe(endpoint)
    if status in (401, 403) or error.fault is Fault.EXHAUSTED:
        return f"rejected the request ({reason})."
    if 300 <= status < 400 or status in (502, 503, 504):
        return f"cannot be used: {reason}"
    # Servers of other addresses may not be able to describe models.
    if status == 404 and endpoint.url == endpoint.service.url:
        return f"does not have the model ({reason}). Set --model."
    if error.failure is not None:
        return f"cannot be reached ({reason}). Check that the server is running."
    return None


async def _version(client: Any, endpoint: Endpoint) -> Any:
    """Return the version, which vLLM and SGLang report; None for other servers."""
    if endpoint.service.engine != "openai" or endpoint.host == HOSTED_HOST:
        return None
    return (await _get(client, endpoint, "/version")).get("version")


async def _is_deterministic(client: Any, endpoint: Endpoint) -> bool:
    """True if a server declares that its replies do not depend on what shares a batch."""
    body = await _get(client, endpoint, "/server_info")
    parts = [part for part in (body, *body.values()) if isinstance(part, dict)]
    return any(part.get(name) in (True, "1") for part in parts for name in DETERMINISTIC_SETTINGS)


async def _get(client: Any, endpoint: Endpoint, path: str) -> dict[str, Any]:
    """Return the JSON object at a path of the server; empty if there is none."""
    try:
        async with sdk_call(LOOK_UP_SECONDS):
            body = await client.get(endpoint.url.removesuffix("/v1") + path, cast_to=object)
    except ApiError:
        return {}
    return body if isinstance(body, dict) else {}
