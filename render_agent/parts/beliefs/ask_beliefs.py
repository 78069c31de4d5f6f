"""The probe after a turn: the model states its beliefs in a side dialogue.

The probe message is appended to the dialogue for one request only, so probes do not change later turns.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from msgspec import structs

from render_agent.agents.agent import SEPARATOR, AfterTurn, Ask, Draw, Need, turn_seed
from render_agent.dialogue.beliefs import read_belief
from render_agent.dialogue.chat import Message, assistant, message, text, with_blocks
from render_agent.dialogue.reply import object_schema
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Probe, ProbeRequest, Turn
from render_agent.dialogue.wording import Wording
from render_agent.engines.engine import Request, limit_reply
from render_agent.tasks.question_types import named_categories

MAX_TOKENS = 1024  # per reply to a probe; enough for a map of forty objects

MAX_LIST_ITEMS = 64  # limit of list lengths in the schema


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


@dataclass(frozen=True)
class BeliefProbe(AfterTurn):
    """Asks for the beliefs after a turn, before it is logged."""

    prompt_tokens: ClassVar[int] = 600
    reply_tokens: ClassVar[int] = MAX_TOKENS

    keys: Mapping[str, Key]
    wording: Wording
    seed: int

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON schema of a reply."""
        return object_schema({name: key.schema for name, key in self.keys.items()})

    def message(self, feedback: str, named: Iterable[str]) -> Message:
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

    def __call__(
        self, state: QuestionState, request: Request, turn: Turn
    ) -> Generator[Need, Any, tuple[Turn, str]]:
        """Return the turn with the probe, and the id of its dialogue."""
        categories = named_categories(state.question)
        asked = self.message(turn.feedback, categories)
        dialogue_id = f"{state.id}{SEPARATOR}turn {turn.number} probe"
        earlier_probe = next((past.probe for past in state.turns if past.probe), None)
        scene = (yield Draw(lambda: state.scene)) if earlier_probe is None else earlier_probe
        request = replace(
            request,
            dialogue_id=dialogue_id,
            question_id=state.id,
            messages=[*request.messages, with_blocks(assistant(turn.reply), turn.blocks), asked],
            is_last_turn=False,
            num_samples=1,
            temperature=0.0,
            seed=turn_seed(self.seed, dialogue_id, turn.number),
            max_new_tokens=MAX_TOKENS,
            schema=None if request.schema is None else self.schema,
            probe=ProbeRequest(tuple(self.keys), categories, turn.camera),
        )
        (reply,) = yield Ask((request,))
        reply = limit_reply(reply, request)
        reply_text = reply.samples[0] if reply.error is None else ""
        probe = Probe(
            asked=asked["content"][0]["text"],
            reply=reply_text,
            belief=None if reply.error is not None else read_belief(reply_text, self.keys.keys()),
            error=reply.error,
            finish=reply.finish,
            tokens=reply.tokens,
            seconds=round(reply.seconds, 4),
            batch_size=reply.batch_size,
            events=reply.events,
            origin=scene.origin,
            mirrored_at=scene.mirrored_at,
        )
        return structs.replace(turn, probe=probe), dialogue_id
