"""Requests under way and their samples, each on its way to a row and through it."""

from __future__ import annotations

from collections.abc import Set
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from render_agent.engines.base import Request
from render_agent.engines.transformers.rows import Written
from render_agent.engines.transformers.slot_manager import Dialogue
from render_agent.engines.transformers.tokenization import DialogueTensors, PreparedPrompt

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class MadePrompt:
    """A prompt, and the pixel values of those of its pictures that were not seen before, by their start."""

    prompt: PreparedPrompt
    values: dict[int, torch.Tensor]


def make_prompt(inputs: DialogueTensors, request: Request, seen: Set[str]) -> MadePrompt:
    """Return a request's prompt; of its pictures only those in files that were not seen are looked at.

    Raises whatever its pictures or its texts cause.
    """
    prompt = inputs.prepare(request)
    unseen = [picture for picture in prompt.shown if picture.file not in seen]
    return MadePrompt(prompt, {picture.start: picture.values() for picture in unseen})


@dataclass(eq=False)
class Asked:
    """A request under way: its prompt as it is being made, and what its samples became so far."""

    request: Request
    made: Future[MadePrompt]
    samples: dict[int, Written | str] = field(default_factory=dict)

    @property
    def prompt(self) -> PreparedPrompt:
        """The prompt, once it is made."""
        return self.made.result().prompt

    def values(self, start: int) -> list[torch.Tensor]:
        """Return the pixel values of the prompt's pictures from a token on."""
        made = self.made.result()
        shown = [picture for picture in made.prompt.shown if picture.start >= start]
        known = [made.values.get(picture.start) for picture in shown]
        return [
            picture.values() if values is None else values
            for picture, values in zip(shown, known, strict=True)
        ]


@dataclass(eq=False)
class Sample:
    """One sample of a request on its way through the rows.

    dialogue: its row, once it has one. start: how many tokens of its prompt stood there already.
    since: when it got there. steps_waited: for how many steps it could have been read.
    """

    asked: Asked
    number: int
    dialogue: Dialogue | None = None
    start: int = 0
    since: float = 0.0
    steps_waited: int = 0

    @property
    def request(self) -> Request:
        """The request that it is a sample of."""
        return self.asked.request

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of its prompt, once it is made."""
        assert self.asked.prompt.ids is not None
        return self.asked.prompt.ids

    @property
    def unread(self) -> int:
        """How many tokens of its prompt its row does not hold yet."""
        return len(self.ids) - self.start
