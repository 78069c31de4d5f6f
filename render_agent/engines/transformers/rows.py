"""Requests as the rows of a batch, and rows as replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.dialogue.state import Tokens
from render_agent.engines.base import Reply, Request
from render_agent.engines.transformers.tokenization import PreparedPrompt


@dataclass(frozen=True, slots=True)
class Row:
    """One sample of one request: a row of a batch."""

    request: Request
    sample: int
    prompt: PreparedPrompt


@dataclass(frozen=True, slots=True)
class Written:
    """What one row became."""

    text: str
    tokens: Tokens
    seconds: float
    batch_size: int
    cut_off: bool


def distinct_samples(request: Request) -> int:
    """Return how many samples of a request can differ: greedily, one."""
    return request.samples if request.temperature > 0 else 1


def reply_of(
    request: Request, written: Sequence[Written | str], events: tuple[str, ...] = ()
) -> Reply:
    """Return one request's reply from its rows; the reason where any of them failed."""
    samples = [row for row in written if isinstance(row, Written)]
    if len(samples) < len(written):
        error = next(row for row in written if isinstance(row, str))
        return Reply(error=error, events=events)
    texts = tuple(row.text for row in samples)
    return Reply(
        samples=texts if len(texts) == request.samples else texts * request.samples,
        tokens=Tokens(
            prompt=sum(row.tokens.prompt for row in samples),
            reply=sum(row.tokens.reply for row in samples),
            cached=sum(row.tokens.cached for row in samples),
        ),
        seconds=max(row.seconds for row in samples),
        batch_size=max(row.batch_size for row in samples),
        finish="length" if any(row.cut_off for row in samples) else "stop",
        events=events,
    )


def chunks(rows: Sequence[Row], size: int) -> list[Sequence[Row]]:
    """Return the rows in pieces of at most `size`."""
    return [rows[start : start + size] for start in range(0, len(rows), size)]
