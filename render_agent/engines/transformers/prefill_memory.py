"""What reading prompts takes of the memory, measured, and what is left for the rows that are kept."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import partial

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.base import Request
from render_agent.engines.transformers.batch_sizing import Line, line_above
from render_agent.engines.transformers.device_memory import DeviceMemory, spare
from render_agent.engines.transformers.forward import read, unread
from render_agent.engines.transformers.guarded_call import Fault, attempt
from render_agent.engines.transformers.kv_cache import RowSlots
from render_agent.engines.transformers.loaded_model import LoadedModel

LOG = logging.getLogger(__name__)

PROBES = (1, 4)
"""Pictures in the two prompts that are read to learn what reading takes."""

READING_SHARE = 0.25
"""Of the memory that may be taken, what reading prompts may take at the most."""

MOST_TOKENS = 8192
"""Tokens read in one call where memory holds more: longer calls are no quicker by token."""


@dataclass(frozen=True, slots=True)
class Division:
    """How memory is divided: bytes for rows, and tokens, padding included, that one call may read."""

    rows: int
    read_tokens: int


def divide(
    loaded: LoadedModel, memory: DeviceMemory, fraction: float, picture_size: tuple[int, int]
) -> Division:
    """Return how the free memory is divided between rows and the reading of prompts.

    fraction: of all memory, what stays free. picture_size: width and height of the pictures to come.
    """
    free = spare(memory, fraction)
    line = _line(loaded, memory, picture_size)
    if line is None:
        # Not even four pictures at once: prompts will be read one by one.
        return Division(round((1 - READING_SHARE) * free), 1)
    tokens = max(1, min(MOST_TOKENS, line.tokens(READING_SHARE * free)))
    rows = max(0, round(free - line.needed(tokens)))
    LOG.info(
        "reading takes %.0f bytes and %.0f a token: %d tokens a call, %d bytes for rows",
        line.fixed,
        line.per_token,
        tokens,
        rows,
    )
    return Division(rows, tokens)


def _line(loaded: LoadedModel, memory: DeviceMemory, picture_size: tuple[int, int]) -> Line | None:
    """Return the bytes that reading takes by tokens, from two prompts; None where they do not fit."""
    points = []
    for pictures in PROBES:
        memory.reset_peak()
        before = memory.used()
        tokens = attempt(partial(_read, loaded, pictures, picture_size), loaded.model.device)
        if isinstance(tokens, Fault):
            LOG.warning("a prompt with %d pictures was too much: %s", pictures, tokens.reason)
            break
        points.append((tokens, max(0, memory.peak() - before)))
    return line_above(points) if points else None


def _read(loaded: LoadedModel, pictures: int, size: tuple[int, int]) -> int:
    """Read a prompt with so many blank pictures; return how many tokens it has."""
    shown = [chat.picture(f"{number}.png") for number in range(pictures)]
    messages = [chat.message("user", chat.text("Look."), *shown)]
    request = Request("probe", 0, messages, lambda file: Image.new("RGB", size))
    prompt = loaded.inputs.prepare(request)
    entry = unread(loaded, prompt)
    with torch.inference_mode():
        read(loaded.model, RowSlots(), [entry], loaded.pad)
    loaded.inputs.retire("probe")
    return len(entry.ids)
