"""The bounds of what engines return: no reply is longer than what was asked for can be, and none has a key in it."""

from __future__ import annotations

from dataclasses import replace

from render_agent.engines.base import MAX_REPLY_BYTES, Reply, Request, reply_bytes
from render_agent.text.redact import without_keys

MARK = "… [cut: {more:,} bytes more than {tokens:,} tokens can be]"
"""Ends a reply that was cut."""


def within_bounds(reply: Reply, request: Request) -> Reply:
    """Return a reply whose samples are as long as its request allows, with no key of the environment in it."""
    samples = tuple(bounded(without_keys(text), request.most_tokens) for text in reply.samples)
    error = None if reply.error is None else without_keys(reply.error)
    if samples == reply.samples and error == reply.error:
        return reply
    cut = any(
        len(after) < len(before) for after, before in zip(samples, reply.samples, strict=True)
    )
    return replace(reply, samples=samples, error=error, finish="length" if cut else reply.finish)


def bounded(text: str, tokens: int) -> str:
    """Return a text, cut with a mark where it is longer than so many tokens can be."""
    most = min(reply_bytes(tokens), MAX_REPLY_BYTES)
    if len(text) * 4 <= most:  # no character has more bytes
        return text
    written = text.encode("utf-8", "surrogatepass")
    if len(written) <= most:
        return text
    kept = written[:most].decode("utf-8", "ignore")
    return kept + MARK.format(more=len(written) - most, tokens=tokens)
