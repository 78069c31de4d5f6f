"""The request fields that each server accepts: a field that it refuses is left out from then on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from render_agent.engines.openai.endpoints import HOSTED_HOST, Endpoint
from render_agent.engines.openai.options import LIMIT_FIELDS, LimitField, OpenAIOptions

GUIDE_FORMATS = ("json_schema", "json_object", None)
"""Ways to hold a reply to its schema, the better ones first."""

TOO_LONG = re.compile(
    r"context.{0,3}(length|window|size)|too (long|large)|reduce the length|maximum .{0,30}tokens",
    re.IGNORECASE,
)
GUIDE_WORDS = re.compile(
    r"response_?format|json_?(schema|object)|guided|structured|grammar", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ServerDialect:
    """The fields that one server takes.

    limit_field: what the limit of tokens is called; settled: the other name is not to be tried.
    guide: how a schema is asked for. without: fields it refused.
    """

    limit_field: LimitField = "max_tokens"
    settled: bool = False
    guide: str | None = "json_schema"
    without: frozenset[str] = frozenset()

    def fields(self, wanted: Mapping[str, Any], limit: int) -> dict[str, Any]:
        """Return the fields to send, from those that are wanted and the limit of tokens."""
        kept = {name: value for name, value in wanted.items() if name not in self.without}
        return {**kept, self.limit_field: limit}

    def response_format(self, schema: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the field that asks for a schema, None where nothing is understood."""
        if self.guide == "json_schema":
            return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}
        return None if self.guide is None else {"type": self.guide}


def first_dialect(endpoint: Endpoint, options: OpenAIOptions) -> ServerDialect:
    """Return the dialect that a server is tried with first: hosted and reasoning models have a limit field of their own."""
    if options.max_tokens_field is not None:
        return ServerDialect(options.max_tokens_field, settled=True)
    hosted = endpoint.host == HOSTED_HOST or options.reasoning_effort is not None
    return ServerDialect(LIMIT_FIELDS[hosted])


def is_too_long(refusal: str) -> bool:
    """Whether a server refuses a request because of its length."""
    return TOO_LONG.search(refusal) is not None


def adapted(
    dialect: ServerDialect, sent: Mapping[str, Any], param: str | None, refusal: str
) -> tuple[ServerDialect, str] | None:
    """Return the dialect without the field that a server refuses, and in words what was changed.

    sent: the fields of the refused request. param: the field that the server names, if it names one;
    refusal: its words. None where the refusal is about something else, or nothing can be left out
    without disobeying an option.
    """
    if is_too_long(refusal):
        return None

    def refused(name: str) -> bool:
        return name in sent and (param == name or _names(refusal, name))

    if not dialect.settled and refused(dialect.limit_field):
        other = LIMIT_FIELDS[dialect.limit_field == LIMIT_FIELDS[0]]
        return replace(dialect, limit_field=other, settled=True), f"{other} is used"
    if "response_format" in sent:
        named = (param or "").startswith("response_format") or GUIDE_WORDS.search(refusal)
        if named and dialect.guide is not None:
            guide = GUIDE_FORMATS[GUIDE_FORMATS.index(dialect.guide) + 1]
            consequence = (
                f"replies are only held to be JSON ({guide})" if guide else "replies are not guided"
            )
            return replace(dialect, guide=guide), consequence
    optional = ["seed", "n", *(["temperature"] if sent.get("temperature") == 0 else [])]
    for name in optional:
        if refused(name):
            return replace(dialect, without=dialect.without | {name}), f"{name} is not sent"
    return None


def _names(refusal: str, name: str) -> bool:
    """Whether a refusal is about a field; "n" counts in quotes only, it is a letter of its own."""
    pattern = rf"[\"'`]{name}[\"'`]" if len(name) < 3 else rf"(?<!\w){name}(?!\w)"
    return re.search(pattern, refusal) is not None
