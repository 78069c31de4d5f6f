"""Probes: requests after a turn and outside its dialogue (`--probe`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from render_agent.dialogue.beliefs import Belief
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.tokens import Tokens
from render_agent.scans.camera import Camera, Vector
from render_agent.util.safe_parse import Either, Finite, NotNegative


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What is asked after a turn, outside the dialogue; for scripted policies, which do not parse the message."""

    keys: tuple[str, ...]
    """Keys of the reply."""
    named: tuple[str, ...]
    """Categories that the question names."""
    camera: Camera
    """Pose after the turn."""


class Probe(Struct, frozen=True, omit_defaults=True):
    """The request, the reply, and the belief parsed from it."""

    noun: ClassVar[str] = "belief probes"  # in caveats

    asked: str
    reply: str = ""
    belief: Either[Malformed, Belief] | None = None
    """The parsed reply; None if the engine returned an `error`."""
    error: str | None = None
    finish: Literal["stop", "length"] = "stop"  # `length` if the reply ended at the token limit
    tokens: Tokens = Tokens()  # tokens of the probe; not included in those of the turn
    seconds: NotNegative = 0.0  # generation time; not included in that of the turn
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1  # requests in the same model call
    events: tuple[str, ...] = ()  # engine faults that were recovered from, by kind
    origin: Vector = (0.0, 0.0, 0.0)
    """`Scene.origin` in metres: lets the belief be compared with the ground truth without the scan."""
    mirrored_at: Finite | None = None

    @property
    def parsed_belief(self) -> Belief | None:
        """The belief; None if it could not be parsed."""
        return self.belief if isinstance(self.belief, Belief) else None
