"""The requests that are being answered, and the state of each of their samples."""

from __future__ import annotations

from collections.abc import Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from render_agent.engines.engine import Reply, Request
from render_agent.engines.transformers.model.inputs import PreparedPrompt, PromptBuilder
from render_agent.engines.transformers.sampling import Writing

if TYPE_CHECKING:
    from render_agent.engines.families.pictures import Tensors
    from render_agent.engines.transformers.kv_cache import Sequence


BuiltPrompt: TypeAlias = "tuple[PreparedPrompt, dict[int, Tensors]]"
"""A prompt, and the pixel values of those of its pictures that were not seen before, by their start."""


def build_prompt(inputs: PromptBuilder, request: Request, seen: Set[str]) -> BuiltPrompt:
    """Return a request's prompt; of its pictures only those in files that were not seen are looked at.

    Raises whatever its pictures or its texts cause.
    """
    prompt = inputs.prepare(request)
    unseen = [picture for picture in prompt.shown if picture.file not in seen]
    return prompt, {picture.start: picture.values() for picture in unseen}


@dataclass(eq=False)
class InFlightRequest:
    """A request that is being answered: its prompt, which another thread builds, and the replies of its samples so far."""

    request: Request
    built: Future[BuiltPrompt]
    samples: dict[int, Reply] = field(default_factory=dict)

    @property
    def prompt(self) -> PreparedPrompt:
        """The prompt, once it is made."""
        return self.built.result()[0]

    def values(self, start: int, end: int) -> list[Tensors]:
        """Return the tensors of the prompt's pictures among these tokens."""
        prompt, values = self.built.result()
        shown = [picture for picture in prompt.shown if start <= picture.start < end]
        return [values.get(picture.start) or picture.values() for picture in shown]


@dataclass(eq=False)
class Sample(Writing):
    """One sample of a request: waiting, then placed in the cache, read, and written token by token.

    start: tokens of its prompt that stood in the cache already. placed_at: seconds, when it got its pages. offset: what
    to add to a token's place to get its position. rows_summed: rows of every step in which it was written. retries: for
    lack of memory.
    """

    in_flight: InFlightRequest
    number: int
    placed: Sequence | None = None
    start: int = 0
    placed_at: float = 0.0
    offset: int = 0
    rows_summed: int = 0
    retries: int = 0

    @property
    def request(self) -> Request:
        """The request that it is a sample of."""
        return self.in_flight.request

    @property
    def sequence(self) -> Sequence:
        """Its place in the cache, once it has one."""
        assert self.placed is not None
        return self.placed

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of its prompt, once it is made."""
        return self.in_flight.prompt.ids

    @property
    def unread(self) -> int:
        """How many tokens of its prompt do not stand in the cache yet."""
        return len(self.ids) - len(self.sequence.ids)

    @property
    def position(self) -> int:
        """The position of its newest token, which is not in the cache yet."""
        return len(self.sequence.ids) + self.offset
