"""The interface of a remote API: its options, and how requests are written, sent and read."""

from __future__ import annotations

import base64
import io
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeVar, get_type_hints

from msgspec import Meta
from PIL.Image import Image

from render_agent.dialogue.chat import Blocks
from render_agent.dialogue.events import CONTENT_FILTER, CONTEXT_EXCEEDED, NO_USAGE
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Reply, Request
from render_agent.engines.engine_options import check_engine_options
from render_agent.engines.remote.api_error import ApiError, RequestError
from render_agent.engines.remote.endpoints import Endpoint, Service
from render_agent.engines.remote.phrases import FINISH_REASONS, End
from render_agent.engines.remote.response_bodies import normalize, parse_body

Fields = Mapping[str, Any]
Messages = Sequence[Fields]
Results = dict[str, str | Exception]  # key of a request -> body of its response, or its error
FinishedJob = tuple[Results, ApiError]  # with the error of requests without a result

JOB_RETRY_SECONDS = 300  # before failed requests are submitted again
CANCELED, GONE = re.compile("cancell?ed", re.I), 410  # status of canceled requests: no retries

JOB_ID = re.compile(r"[!-~]{1,1000}")  # ids become a part of URLs
MAX_COUNT = 10**15  # larger token counts in a response are treated as invalid


Positive = Annotated[float, Meta(gt=0, le=1e15)]

Omittable = Literal["seed", "temperature", "n", "response_format"]


@dataclass(frozen=True, slots=True)
class RemoteOptions:
    """Options for requests to servers."""

    timeout: Positive = 600.0  # seconds that a server may be silent before its reply is complete
    connect_timeout: Positive = 10.0  # seconds to connect to the server
    retries: Annotated[int, Meta(ge=0)] = 8
    """Retries per request, with exponential backoff, at least the server's Retry-After."""
    omit: tuple[Omittable, ...] = ()  # fields to leave out, for servers that reject them
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    """Additional fields of every request, sent unchanged."""

    def fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that have a value, and the additional ones."""
        return {k: v for k, v in values.items() if v is not None} | dict(self.extra_body)


Options = TypeVar("Options", bound=RemoteOptions)


def read_options(kind: type[Options], options: Mapping[str, Any], engine: str) -> Options:
    """Check and convert parsed engine options. Raises UsageError if one is unknown or invalid."""
    check_engine_options(options, get_type_hints(kind, include_extras=True), engine)
    return kind(**options)


class ChatApi(ABC):
    """The wire format of one API, with the options of a run."""

    name: ClassVar[str]
    """Name in the table of quirks."""
    service: ClassVar[Service]
    """Address and keys of the hosted service."""

    def __init__(self, model: str, options: Any, thinking: str = "auto") -> None:
        self.model, self.options, self.thinking = model, options, thinking

    @abstractmethod
    def connect(self, endpoint: Endpoint) -> Any:
        """Return the SDK's client for a server, without retries."""

    @abstractmethod
    def messages(
        self,
        request: Request,
        image: Callable[[str], str],  # returns the PNG of an image file, in base64
    ) -> list[dict[str, Any]]:
        """Return the conversation of a request."""

    @abstractmethod
    def fields(
        self, request: Request, samples: int, seed: int, endpoint: Endpoint
    ) -> dict[str, Any]:
        """Return the other fields of a request, without the model."""

    @abstractmethod
    async def send(self, client: Any, messages: Messages, fields: Fields) -> str:
        """Send a request and return the body of the response. Call it in `sdk_call`."""

    @abstractmethod
    def read(self, body: Any, request: Request) -> Reply | None:
        """Return the reply in the body of a response; None if it is not complete."""

    @abstractmethod
    def job_request(self, key: str, messages: Messages, fields: Fields) -> dict[str, Any]:
        """Return a request as a part of a batch job; its result has the same key."""

    @abstractmethod
    async def submit_job(self, client: Any, requests: Sequence[str]) -> str:
        """Submit requests, in JSON, as one batch job and return its id."""

    @abstractmethod
    async def poll_job(self, client: Any, job: str) -> tuple[str, str | None]:
        """Return the status of a batch job, and its results as lines of JSON if it has ended."""

    @abstractmethod
    def job_result(self, line: Any) -> tuple[Any, int, Any]:
        """Return the key, the status and the body of a result."""

    async def fetch_job(self, client: Any, job: str) -> FinishedJob | str:
        """Return the results of a batch job, or its status if it has not ended."""
        status, lines = await self.poll_job(client, job)
        if lines is None:
            return status
        results: Results = {}
        for line in lines.split("\n"):
            try:
                key, code, body = self.job_result(parse_body(line))
            except (LookupError, TypeError, AttributeError):
                continue  # not a result
            if isinstance(code, int):
                code, content = normalize(code, json.dumps(body).encode())
                text = content.decode()
                results[str(key)] = text if 200 <= code < 300 else job_fault(text, code)
        return results, job_fault(f"the batch job ended without a result: {status}", 500)

    async def close(self, client: Any) -> None:
        await client.close()

    async def list_models(self, client: Any) -> list[dict[str, Any]]:
        """Return the models of a server, in OpenAI's format; by default the model of the run, if it exists."""
        await client.models.with_raw_response.retrieve(self.model)
        return [{"id": self.model}]


def png_base64(image: Image) -> str:
    """Return an image as a PNG in base64, with fast compression, like the images in the run folder."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", compress_level=1)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def encode_image(request: Request, file: str) -> str:
    """Return an image of a request as a PNG in base64. Raises RequestError if it cannot be read."""
    try:
        return png_base64(request.load_image(file))
    except Exception as error:
        raise RequestError(f"the prompt could not be prepared: {error}") from error


def reply_text(text: str, calls: Sequence[str], thought: str) -> str:
    """Return a reply as text: its text and its calls, after a <think> block."""
    reply = "\n".join(filter(None, (text, *calls)))
    if not thought:
        return reply
    # A mark inside the thought would end the block early, and the rest would count as the reply.
    thought = re.sub("<(/?think)>", "‹\\1›", thought)
    return f"<think>{thought}</think>\n{reply}"


def make_reply(
    texts: Sequence[str],
    reasons: Sequence[Any],
    tokens: Tokens,
    *,
    blocks: Sequence[Blocks] = (),
    is_filtered: bool = False,
) -> Reply | None:
    """Return a reply; None if the server could not complete it, which is its fault and not the model's.

    Texts, finish reasons and blocks are those of the samples. `is_filtered` is true if the response says in another field
    that a content filter ended the reply.
    """
    names = [str(mapping(reason).get("type") or reason or "").lower() for reason in reasons]
    ends = [FINISH_REASONS.get(name) for name in names]
    is_filtered = is_filtered or End.FILTER in ends
    for text, end in zip(texts, ends, strict=True):
        is_empty = not text.strip() and not is_filtered
        if end is End.FAULT or (is_empty and end is End.FAULT_IF_EMPTY):
            return None
    values = {
        CONTENT_FILTER: is_filtered,
        CONTEXT_EXCEEDED: End.CONTEXT in ends,
        NO_USAGE: tokens.prompt == 0,
    }
    return Reply(
        samples=tuple(texts),
        tokens=tokens,
        finish="stop" if {End.LENGTH, End.CONTEXT}.isdisjoint(ends) else "length",
        events=tuple(event for event, is_true in values.items() if is_true),
        blocks=tuple(blocks) if any(blocks) else (),
    )


def token_count(value: Any) -> int:
    """Return a count from a response, or 0 if it is not valid."""
    is_valid = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT
    return value if is_valid else 0


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a JSON object; empty for other values."""
    return value if isinstance(value, Mapping) else {}


def mappings(value: Any) -> list[dict[str, Any]]:
    """Return the objects in a JSON list; empty for other values."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def job_field(batch: Any, name: str) -> str:
    """Return an id or a status of a batch job, as parsed by an SDK. Raises ApiError if the response has none."""
    value = getattr(batch, name, None)
    if not isinstance(value, str) or not JOB_ID.fullmatch(value):
        reason = f"the response does not describe a batch job: it has no valid {name}"
        raise ApiError(reason, failure="unreadable")
    return value


def job_fault(text: str, status: int) -> ApiError:
    """Return the error of a request in a batch job."""
    status = GONE if status >= 500 and CANCELED.search(text) else status
    return ApiError(f"status {status}", status, text, {"retry-after": str(JOB_RETRY_SECONDS)})
