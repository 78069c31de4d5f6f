"""Engine options that all remote APIs share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from msgspec import Meta

from render_agent.engines.engine_options import check_engine_options

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
