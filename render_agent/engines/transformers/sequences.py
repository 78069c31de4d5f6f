"""Requests under way and their samples, each on its way into the cache and through its reply."""

from __future__ import annotations

from collections.abc import Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from render_agent.engines.base import Reply, Request
from render_agent.engines.transformers.model.inputs import DialogueTensors, PreparedPrompt
from render_agent.engines.transformers.sampling import Writing

if TYPE_CHECKING:
    from render_agent.engines.families.pictures import Tensors
    from render_agent.engines.transformers.kv_cache import Sequence


MadePrompt: TypeAlias = "tuple[PreparedPrompt, dict[int, Tensors]]"
"""A prompt, and the pixel values of those of its pictures that were not seen before, by their start."""


def make_prompt(inputs: DialogueTensors, request: Request, seen: Set[str]) -> MadePrompt:
    """Return a request's prompt; of its pictures only those in files that were not seen are looked at.

    Raises whatever its pictures or its texts cause.
    """
    prompt = inputs.prepare(request)
    unseen = [picture for picture in prompt.shown if picture.file not in seen]
    return prompt, {picture.start: picture.values() for picture in unseen}


@dataclass(eq=False)
class Asked:
    """A request under way: its prompt as it is being made, and what its samples became so far."""

    request: Request
    made: Future[MadePrompt]
    samples: dict[int, Reply] = field(default_factory=dict)

    @property
    def prompt(self) -> PreparedPrompt:
        """The prompt, once it is made."""
        return self.made.result()[0]

    def values(self, start: int, end: int) -> list[Tensors]:
        """Return the tensors of the prompt's pictures among these tokens."""
        prompt, values = self.made.result()
        shown = [picture for picture in prompt.shown if start <= picture.start < end]
        return [values.get(picture.start) or picture.values() for picture in shown]


@dataclass(eq=False)
class Sample(Writing):
    """One sample of a request: waiting, then placed in the cache, read, and written token by token.

    start: how many tokens of its prompt stood in the cache already. since: when it was placed.
    offset: what to add to a token's place to get its position. beside: how many were written together in each step, summed. waited: how often it was tried
    again for lack of memory.
    """

    asked: Asked
    number: int
    placed: Sequence | None = None
    start: int = 0
    since: float = 0.0
    offset: int = 0
    beside: int = 0
    waited: int = 0

    @property
    def request(self) -> Request:
        """The request that it is a sample of."""
        return self.asked.request

    @property
    def sequence(self) -> Sequence:
        """Its place in the cache, once it has one."""
        assert self.placed is not None
        return self.placed

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of its prompt, once it is made."""
        return self.asked.prompt.ids

    @property
    def unread(self) -> int:
        """How many tokens of its prompt do not stand in the cache yet."""
        return len(self.ids) - len(self.sequence.ids)

    @property
    def position(self) -> int:
        """The position of its newest token, which is not in the cache yet."""
        return len(self.sequence.ids) + self.offset
