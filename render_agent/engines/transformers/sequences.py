"""Requests in flight, and the state of each of their samples."""

from __future__ import annotations

from collections.abc import Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from render_agent.engines.engine import Reply, Request
from render_agent.engines.transformers.model.inputs import PreparedPrompt, PromptBuilder
from render_agent.engines.transformers.sampling import PartialReply

if TYPE_CHECKING:
    from render_agent.engines.families.images import Tensors
    from render_agent.engines.transformers.kv_cache import CachedSequence


BuiltPrompt: TypeAlias = "tuple[PreparedPrompt, dict[int, Tensors]]"
"""A prompt, and the tensors of its new images by the index of their first token."""


def build_prompt(inputs: PromptBuilder, request: Request, seen: Set[str]) -> BuiltPrompt:
    """Build the prompt of a request, and compute the tensors of its images other than those seen in earlier turns.

    Raises any error that an image or a text causes in the libraries.
    """
    prompt = inputs.prepare(request)
    new = [image for image in prompt.images if image.file not in seen]
    return prompt, {image.start: image.values() for image in new}


@dataclass(eq=False)
class InFlightRequest:
    request: Request
    built: Future[BuiltPrompt]  # the prompt, which another thread builds
    samples: dict[int, Reply] = field(default_factory=dict)  # completed samples by index

    @property
    def prompt(self) -> PreparedPrompt:
        """The prompt; waits until it is built."""
        return self.built.result()[0]

    def image_tensors(self, start: int, end: int) -> list[Tensors]:
        """Return the tensors of the images that begin between two tokens."""
        prompt, tensors = self.built.result()
        images = [image for image in prompt.images if start <= image.start < end]
        return [tensors.get(image.start) or image.values() for image in images]


@dataclass(eq=False)
class Sample(PartialReply):
    """One sample of a request. It waits, is placed in the cache, prefilled, and generated token by token."""

    in_flight: InFlightRequest
    number: int  # index among the samples of the request
    placed: CachedSequence | None = None
    start: int = 0  # tokens of the prompt that were already in the cache
    cached: int = 0  # those of them that were not read ahead for this prompt
    placed_at: float = 0.0  # time in seconds at which it was placed
    offset: int = 0  # difference between the position and the index of a token
    rows_summed: int = 0  # sum of the number of rows over all its decoding steps
    retries: int = 0  # retries because of missing memory

    @property
    def request(self) -> Request:
        return self.in_flight.request

    @property
    def sequence(self) -> CachedSequence:
        """Its sequence in the cache; it must be placed."""
        assert self.placed is not None
        return self.placed

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the prompt; waits until it is built."""
        return self.in_flight.prompt.ids

    @property
    def unread(self) -> int:
        """Number of tokens of the prompt that are not in the cache yet."""
        return len(self.ids) - len(self.sequence.ids)

    @property
    def position(self) -> int:
        """Position of the newest token, which is not in the cache yet."""
        return len(self.sequence.ids) + self.offset
