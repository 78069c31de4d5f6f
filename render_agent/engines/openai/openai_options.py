"""Engine options of `--engine openai`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_type_hints

from msgspec import Meta

from render_agent.engines.engine_options import check_engine_options

Positive = Annotated[float, Meta(gt=0, le=1e15)]


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """Options for requests to servers.

    Attributes:
        timeout: Seconds that a server may be silent before its reply is complete.
        connect_timeout: Seconds to connect to the server.
        retries: Retries per request, with the SDK's exponential backoff or the server's Retry-After.
        max_tokens_field: Name of the field that limits the tokens of a reply; by default
            `max_completion_tokens` for OpenAI's own servers and if `reasoning_effort` is set.
        omit: Fields to leave out, for servers that reject them.
        extra_body: Additional fields of every request, sent unchanged.
        image_detail: `low` or `high`.
    """

    timeout: Positive = 600.0
    connect_timeout: Positive = 10.0
    retries: Annotated[int, Meta(ge=0)] = 8
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    reasoning_effort: str | None = None
    top_p: Positive | None = None
    omit: tuple[Literal["seed", "temperature", "n", "response_format"], ...] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    image_detail: str | None = None


def read_options(options: Mapping[str, Any]) -> OpenAIOptions:
    """Check and convert parsed engine options. Raises UsageError if one is unknown or invalid."""
    check_engine_options(options, get_type_hints(OpenAIOptions, include_extras=True), "openai")
    return OpenAIOptions(**options)
