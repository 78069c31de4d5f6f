"""The `--engine-option`s of `--engine openai`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, get_args, get_type_hints

from msgspec import Meta

from render_agent.engines.engine_options import check_engine_options
from render_agent.text.safe_parse import NotNegative

Positive = Annotated[float, Meta(gt=0, le=1e15)]

LimitField = Literal["max_tokens", "max_completion_tokens"]
"""What servers call the limit of a reply's tokens."""

LIMIT_FIELDS: tuple[LimitField, ...] = get_args(LimitField)


@dataclass(frozen=True, slots=True)
class OpenAIOptions:
    """How servers are asked.

    timeout, connect_timeout: seconds of a whole reply, of reaching the server. retries: of one
    request, after waits that double from first_wait seconds. max_tokens_field: found out where it is
    not given. extra_body: fields of every request, as they are. price_in, price_out, price_cached: of
    a million tokens. rate_limit: requests a minute. image_detail: low, high.
    """

    timeout: Positive = 600.0
    connect_timeout: Positive = 10.0
    retries: Annotated[int, Meta(ge=0)] = 8
    first_wait: Positive = 0.5
    max_tokens_field: LimitField | None = None
    reasoning_effort: str | None = None
    top_p: Positive | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    price_in: NotNegative | None = None
    price_out: NotNegative | None = None
    price_cached: NotNegative | None = None
    rate_limit: Positive | None = None
    image_detail: str | None = None


def read_options(given: Mapping[str, Any]) -> OpenAIOptions:
    """Return the engine options K=V as they were read. UsageError where one is none or makes no sense."""
    check_engine_options(given, get_type_hints(OpenAIOptions, include_extras=True), "openai")
    return OpenAIOptions(**given)
