"""Probes (`--probe`): questions about the model's beliefs, asked after a turn and outside the dialogue.

The probe message is appended to the dialogue for one request only, so probes do not change later turns. Replies are
parsed by `render_agent.dialogue.beliefs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from render_agent.dialogue.beliefs import Belief
from render_agent.dialogue.chat import Message, message, text
from render_agent.dialogue.reply import Malformed, object_schema
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.wording import Wording
from render_agent.scans.camera import Camera, Vector
from render_agent.util.safe_parse import Either, Finite, NotNegative

MAX_TOKENS = 1024  # per reply to a probe; enough for a map of forty objects

MAX_LIST_ITEMS = 64  # limit of list lengths in the schema


class Probe(Struct, frozen=True, omit_defaults=True):
    """A probe after a turn, outside the dialogue: the request, the reply, and the belief parsed from it."""

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


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the reply to a probe."""

    example: str  # an example value as JSON; the wording describes the meaning
    schema: Mapping[str, Any]
    of_camera: bool = False
    """True for parts of the camera's pose, which are only requested if the model moves the camera."""


# These schemas use only JSON schema features that the schema of a turn's reply also uses. If a server rejected one,
# guided decoding would be switched off for later turns too, and probes would change the dialogue.


def _number(low: float, high: float) -> dict[str, Any]:
    return {"type": "number", "minimum": low, "maximum": high}


_POINT = {"type": "array", "items": _number(-1000, 1000), "minItems": 2, "maxItems": 2}
_NAME = {"type": "string"}


def _array_of(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of objects with exactly these properties."""
    return {"type": "array", "maxItems": MAX_LIST_ITEMS, "items": object_schema(properties)}


def _integer(maximum: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": maximum}


OBJECTS = Key(
    '[{"category": "name", "position": [0.0, 0.0], "sure": 0, "length_meters": 0.0}]',
    _array_of(category=_NAME, position=_POINT, sure=_integer(100), length_meters=_number(0, 1000)),
)
COUNTS = Key(
    '[{"category": "name", "count": 0}]',
    _array_of(category=_NAME, count=_integer(999)),
)
POSITION = Key("[0.0, 0.0]", _POINT, of_camera=True)
YAW = Key("0", _number(-360, 360), of_camera=True)
UNSEEN = Key('["name"]', {"type": "array", "items": _NAME, "maxItems": MAX_LIST_ITEMS})
AREA = Key("0.0", _number(0, 10_000))


POSE = {"position": POSITION, "yaw_degrees": YAW}

# Value of `--probe` -> the keys that it requests.
KEYS: Mapping[str, Mapping[str, Key]] = {
    "map": {"objects": OBJECTS, **POSE, "unseen": UNSEEN, "floor_square_meters": AREA},
    "counts": {"counts": COUNTS},
    "pose": POSE,
    "seen": {"unseen": UNSEEN},
}


def probe_keys(probes: Iterable[str], *, free: bool) -> dict[str, Key]:
    """Return the keys that the probes request, by name."""
    keys = {name: key for probe in probes for name, key in KEYS[probe].items()}
    return {name: key for name, key in keys.items() if free or not key.of_camera}


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """A probe in structured form, for scripted policies that do not parse the message."""

    keys: tuple[str, ...]
    named: tuple[str, ...]  # the categories that the question names
    camera: Camera


@dataclass(frozen=True)
class ProbePlan:
    """The probe that follows every turn of a run."""

    keys: Mapping[str, Key]
    wording: Wording

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of a reply."""
        return object_schema({name: key.schema for name, key in self.keys.items()})

    def request(self, feedback: str, named: Sequence[str]) -> Message:
        """Return the probe message."""
        say = self.wording
        subject = say("probe.named", names=", ".join(named)) if named else say("probe.unnamed")
        examples = ",\n ".join(f'"{name}": {key.example}' for name, key in self.keys.items())
        lines = [
            say("probe.key", name=name, meaning=say(f"probe.{name}", named=subject))
            for name in self.keys
        ]
        request = say("probe.request", feedback=feedback, examples=examples, keys="\n".join(lines))
        return message("user", text(request))
