"""Probes: what a model is asked to believe after a turn, outside the dialogue; `--probe` names them.

The message follows the dialogue so far and is in no later turn, so that the dialogue is the same with and without it.
What comes back is read by `render_agent.dialogue.beliefs`.
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

MAX_TOKENS = 1024
"""Of a reply to a probe: a map of forty objects."""

MOST_LISTED = 64
"""Objects that the schema allows."""


class Probe(Struct, frozen=True, omit_defaults=True):
    """A probe after a turn, outside the dialogue: the request, the reply, and the belief read from it.

    asked: the message, which no later turn has. belief: the reply as it was understood, None where the engine
    gave an `error` instead. tokens, seconds, batch_size, finish, events: as those of a turn, and not among them.
    origin, mirrored_at: the frame in which the scene was shown, as `Scene` has them, so that the truth can be
    set beside a belief without its scan.
    """

    asked: str
    reply: str = ""
    belief: Either[Malformed, Belief] | None = None
    error: str | None = None
    finish: Literal["stop", "length"] = "stop"
    tokens: Tokens = Tokens()
    seconds: NotNegative = 0.0
    batch_size: Annotated[int, Meta(ge=1, le=10**15)] = 1
    events: tuple[str, ...] = ()
    origin: Vector = (0.0, 0.0, 0.0)
    mirrored_at: Finite | None = None

    @property
    def read(self) -> Belief | None:
        """The belief, None where it could not be read."""
        return self.belief if isinstance(self.belief, Belief) else None


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the reply: an example of its value as JSON, and its JSON schema; the wording says what it means."""

    example: str
    schema: Mapping[str, Any]
    of_camera: bool = False
    """Whether it asks where the camera is, which moves only where the model moves it."""


# The schemas use what the schema of a turn's reply uses: a server that refused one would be asked for none from then on,
# and the dialogue would not be what it is without probes.


def _number(low: float, high: float) -> dict[str, Any]:
    return {"type": "number", "minimum": low, "maximum": high}


_POINT = {"type": "array", "items": _number(-1000, 1000), "minItems": 2, "maxItems": 2}
_NAME = {"type": "string"}


def _array_of(**properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a list of objects, each with all of these properties."""
    return {"type": "array", "maxItems": MOST_LISTED, "items": object_schema(properties)}


def _integer(most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 0, "maximum": most}


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
UNSEEN = Key('["name"]', {"type": "array", "items": _NAME, "maxItems": MOST_LISTED})
AREA = Key("0.0", _number(0, 10_000))


POSE = {"position": POSITION, "yaw_degrees": YAW}

KEYS: Mapping[str, Mapping[str, Key]] = {
    "map": {"objects": OBJECTS, **POSE, "unseen": UNSEEN, "floor_square_meters": AREA},
    "counts": {"counts": COUNTS},
    "pose": POSE,
    "seen": {"unseen": UNSEEN},
}
"""The keys that each probe asks for."""


def keys_of(probes: Iterable[str], *, free: bool) -> dict[str, Key]:
    """Return the keys of some probes. If the camera is moved for the model (not free), its pose is not asked."""
    keys = {name: key for probe in probes for name, key in KEYS[probe].items()}
    return {name: key for name, key in keys.items() if free or not key.of_camera}


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """What a request for a belief is about, for whoever answers without reading it.

    keys: what is asked for. named: the categories that the question names. camera: where it stands now.
    """

    keys: tuple[str, ...]
    named: tuple[str, ...]
    camera: Camera


@dataclass(frozen=True)
class ProbePlan:
    """What is asked after every turn: its keys by name, and its sentences."""

    keys: Mapping[str, Key]
    wording: Wording

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of a reply."""
        return object_schema({name: key.schema for name, key in self.keys.items()})

    def request(self, feedback: str, named: Sequence[str]) -> Message:
        """Return the message; feedback: what the turn led to, in the words that the dialogue has for it."""
        say = self.wording
        which = say("probe.named", names=", ".join(named)) if named else say("probe.unnamed")
        examples = ",\n ".join(f'"{name}": {key.example}' for name, key in self.keys.items())
        lines = [
            say("probe.key", name=name, meaning=say(f"probe.{name}", named=which))
            for name in self.keys
        ]
        words = say("probe.request", feedback=feedback, examples=examples, keys="\n".join(lines))
        return message("user", text(words))
