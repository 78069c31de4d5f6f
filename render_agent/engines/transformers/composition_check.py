"""Checks on the device that logits do not depend on what shares a call, before a run with `--reproducible on`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from render_agent.dialogue import chat
from render_agent.engines.engine import Reply, Request
from render_agent.engines.transformers.cache_check import SIZES, probe_image

if TYPE_CHECKING:
    from render_agent.engines.transformers.sequences import Sample
    from render_agent.engines.transformers.transformers_engine import ContinuousEngine

# Tokens of the prompts: the first one takes more than a block, but shares its call with the second one.
TOKENS = (280, 60, 900)
NEW_TOKENS = 8


def check_composition(engine: ContinuousEngine) -> str | None:
    """Return an error message if a dialogue has other logits alone than with two others; otherwise None."""
    requests = [_request(engine, number) for number in range(len(TOKENS))]
    try:
        with _recorded(engine) as alone:
            errors = _run(engine, requests[:1])
        _forget(engine)
        with _recorded(engine) as together:
            errors += _run(engine, requests[::-1])
    finally:
        _forget(engine)
    if errors:
        return errors[0]
    pairs = list(zip(alone["probe 0"], together["probe 0"], strict=False))
    if len(alone["probe 0"]) == len(together["probe 0"]) and all(a.equal(b) for a, b in pairs):
        return None
    return "logits of a dialogue change when other dialogues share its calls"


def _run(engine: ContinuousEngine, requests: Sequence[Request]) -> list[str]:
    """Answer requests whose prompts are ready at the same time; return the errors."""
    engine.submit(requests)
    engine.await_prompts()
    replies: list[Reply] = []
    while len(replies) < len(requests):
        replies += [reply for _, reply in engine.ready()]
    return [reply.error for reply in replies if reply.error is not None]


@contextmanager
def _recorded(engine: ContinuousEngine) -> Iterator[dict[str, list[torch.Tensor]]]:
    """Record the logits of every new token by dialogue."""
    logits: dict[str, list[torch.Tensor]] = {}

    def record(rows_of_logits: torch.Tensor, rows: Sequence[Sample]) -> None:
        for row, own in zip(rows, rows_of_logits, strict=True):
            logits.setdefault(row.request.dialogue_id, []).append(own.cpu())

    before, engine.scheduler.on_logits = engine.scheduler.on_logits, record
    try:
        yield logits
    finally:
        engine.scheduler.on_logits = before


def _request(engine: ContinuousEngine, number: int) -> Request:
    sentence = f"{number} places have been seen, and this is the next one. "
    words = sentence * -(-TOKENS[number] // len(engine.loaded.tokenizer(sentence)["input_ids"]))
    image = chat.image_piece([*SIZES][number])
    messages = [chat.message("user", chat.text(words), image, chat.text("What now?"))]
    return Request(f"probe {number}", 0, messages, probe_image, max_new_tokens=NEW_TOKENS)


def _forget(engine: ContinuousEngine) -> None:
    """Remove all traces of the check."""
    for number in range(len(TOKENS)):
        engine.retire(f"probe {number}")
    engine.cache.drop_prefix()
    engine.forget_lengths()
