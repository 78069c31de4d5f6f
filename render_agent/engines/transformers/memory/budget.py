"""The memory budget: what reading prompts takes, measured, and what is left for the KV cache."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.memory.device import DeviceMemory, spare, watched
from render_agent.engines.memory.faults import Fault, attempt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.prefill import Unread, new_cache, read
from render_agent.util.display import stage

LOG = logging.getLogger(__name__)

PROBE_PICTURES = {"cuda": (4, 20)}
"""Pictures in the two prompts that are read to learn what reading takes: on a GPU about as many as one call reads."""

FEW_PICTURES = (1, 4)
"""The same elsewhere."""

KEPT_BACK = {"cuda": 0.05}
"""Of all memory, what is left out of the budget beside what stays free: for graphs, and for calls that need more
than those that were measured."""

READING_SHARE = 0.25
"""Of the memory that may be taken, what reading prompts may take at the most."""

MOST_TOKENS = 8192
"""Tokens read in one call where memory holds more: longer calls are no quicker by token."""


@dataclass(frozen=True, slots=True)
class Line:
    """Bytes that reading takes: fixed + per_token × its tokens."""

    fixed: float
    per_token: float

    def needed(self, tokens: int) -> float:
        """Return the bytes for so many tokens."""
        return self.fixed + self.per_token * tokens

    def tokens(self, count: float) -> int:
        """Return the tokens that so many bytes are enough for; 0 where there are none."""
        return max(0, int((count - self.fixed) / self.per_token))


def line_above(points: Sequence[tuple[int, int]]) -> Line:
    """Return the line through one or two points, (tokens, bytes): through the origin where it is one."""
    (few, least), (many, most) = points[0], points[-1]
    slope = (most - least) / (many - few) if many > few else most / many
    # Noise alone can make more tokens seem to need less.
    slope = max(slope, 1.0)
    return Line(max(0.0, least - slope * few, most - slope * many), slope)


def divide(
    loaded: LoadedModel, memory: DeviceMemory, fraction: float, picture_size: tuple[int, int]
) -> tuple[int, int]:
    """Return how the free memory is divided: bytes for the cache, and tokens that one call may read.

    fraction: of all memory, what stays free; a GPU's allocator is held to that from now on.
    picture_size: width and height of the pictures to come.
    """
    enforce(loaded.model.device, fraction)
    free = spare(memory, fraction + KEPT_BACK.get(loaded.model.device.type, 0))
    with stage("measuring memory", announced=True):
        line = _line(loaded, memory, picture_size)
    if line is None:
        # Not even four pictures at once: prompts will be read one by one.
        return round((1 - READING_SHARE) * free), 1
    tokens = max(1, min(MOST_TOKENS, line.tokens(READING_SHARE * free)))
    cache = max(0, round(free - line.needed(tokens)))
    LOG.info(
        "reading takes %.0f bytes and %.0f a token: %d tokens a call, %d bytes for the cache",
        line.fixed,
        line.per_token,
        tokens,
        cache,
    )
    return cache, tokens


def _line(loaded: LoadedModel, memory: DeviceMemory, picture_size: tuple[int, int]) -> Line | None:
    """Return the bytes that reading takes by tokens, from two prompts; None where they do not fit."""
    points = []
    for pictures in PROBE_PICTURES.get(loaded.model.device.type, FEW_PICTURES):
        with watched(memory) as needed:
            tokens = attempt(partial(_read, loaded, pictures, picture_size), loaded.model.device)
        if isinstance(tokens, Fault):
            LOG.warning("a prompt with %d pictures was too much: %s", pictures, tokens.reason)
            break
        points.append((tokens, needed[0]))
    return line_above(points) if points else None


def _read(loaded: LoadedModel, pictures: int, size: tuple[int, int]) -> int:
    """Read a prompt with so many blank pictures; return how many tokens it has."""
    shown = [chat.picture(f"{number}.png") for number in range(pictures)]
    messages = [chat.message("user", chat.text("Look."), *shown)]
    request = Request("probe", 0, messages, lambda file: Image.new("RGB", size))
    prompt = loaded.inputs.prepare(request)
    cache = new_cache(loaded)
    sequence = cache.begin("probe", prompt)
    cache.reserve(sequence, 0, len(prompt.ids))
    values = [picture.values() for picture in prompt.shown]
    read(loaded.model, cache, [Unread(prompt, sequence, 0, values)], loaded.inputs.family)
    loaded.inputs.retire("probe")
    return len(prompt.ids)


def enforce(device: Any, fraction: float) -> None:
    """Let PyTorch's allocator leave a fraction of a GPU's memory free, whatever others hold of it.

    What runs out then raises the allocator's own error, which is known, before libraries that take memory beside
    it find none.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        allowed = torch.cuda.memory_reserved(device) + free - fraction * total
        torch.cuda.set_per_process_memory_fraction(min(1.0, max(0.01, allowed / total)), device)
