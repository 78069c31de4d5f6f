"""Token counts of replies."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from render_agent.util.safe_parse import Count


class Tokens(Struct, frozen=True):
    """Tokens of one reply, or of several: read, written, and read from a cache instead of computed.

    thought: those of the written ones that were thought before the reply, where the engine can tell them.
    """

    prompt: Count = msgspec.field(name="in", default=0)
    reply: Count = msgspec.field(name="out", default=0)
    cached: Count = msgspec.field(name="from_cache", default=0)
    thought: Count = 0

    @classmethod
    def total(cls, counted: Iterable[Tokens]) -> Tokens:
        """Return the sum of some tokens, none where there are none."""
        tokens = list(counted)
        return cls(
            sum(each.prompt for each in tokens),
            sum(each.reply for each in tokens),
            sum(each.cached for each in tokens),
            sum(each.thought for each in tokens),
        )
