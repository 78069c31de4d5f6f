"""Token counts of replies."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct, structs

from render_agent.util.safe_parse import Count, to_plain


class Tokens(Struct, frozen=True):
    """Token counts of one reply, or the sum over several; 0 if the engine does not report them.

    Counts have the same meaning for every engine, whatever its API reports: `cached` and `cache_written` are disjoint
    parts of `prompt`, and `thought` is a part of `reply`.
    """

    prompt: Count = msgspec.field(name="in", default=0)
    """All prompt tokens, cached or not (`in` in the log)."""
    reply: Count = msgspec.field(name="out", default=0)
    """All generated tokens, including thinking (`out` in the log)."""
    cached: Count = msgspec.field(name="from_cache", default=0)
    """Prompt tokens that were read from a cache (`from_cache` in the log)."""
    thought: Count = 0  # generated tokens that belong to thinking
    cache_written: Count = msgspec.field(name="to_cache", default=0)
    """Prompt tokens written to a cache and billed separately, as by Anthropic (`to_cache` in the log)."""

    @property
    def are_reported(self) -> bool:
        """True if the engine reported token counts; every prompt has at least one token."""
        return self.prompt > 0

    @classmethod
    def total(cls, parts: Iterable[Tokens]) -> Tokens:
        """Return the sum of several token counts."""
        return cls(*map(sum, zip(*map(structs.astuple, parts), strict=True)))


def reported_total(parts: Iterable[Tokens]) -> dict[str, int | None]:
    """Return the sum of token counts as JSON; all None if no reply has counts."""
    counts = list(parts)
    total = Tokens.total(counts)
    values: dict[str, int | None] = to_plain(total)
    return values if total.are_reported or not counts else dict.fromkeys(values)
