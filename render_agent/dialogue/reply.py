"""What a reply may contain: every field is declared once, in `FIELDS`, and read into an `Action`.

The parser, the JSON schema, the instructions, the docs, the form of `play` and the texts of pages are made from the
declarations. A new field needs an attribute of `Action`, an entry in `FIELDS`, its sentence in `wording.yaml`, and
the code that acts on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct, field, structs

from render_agent.dialogue.wording import Wording, general
from render_agent.scans.camera import MAX_PITCH
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.util.numbers import ANGLES, UNITS, quantity
from render_agent.util.safe_parse import Count, Either, Finite

KINDS = ("ego", "top", "around")
"""The kinds of view that a reply may ask for."""

MAX_ROTATION_DEGREES = 180
"""Limit of a turn's rotation."""

MAX_MOVE_METRES = 2
"""Limit of a turn's move along each axis."""

MAX_VIEW_NUMBER = 1_000_000
"""No view has a number as high as this."""

MAX_PLACES = 6
"""Places that a reply may measure at."""

MAX_COORDINATE = 1_000
"""Limit of a coordinate in the JSON schema, metres."""

MAX_PIXEL = 100_000
"""Limit of a column or row in the JSON schema."""

Point = tuple[Finite, Finite, Finite]

Schema = dict[str, Any]


class Place(Struct, frozen=True, omit_defaults=True):
    """A place that a reply measures at: a pixel of a view, or a point.

    view: the number of the view; x, y are then pixels to the right and down from its top left corner. None:
    x, y, z are metres, world frame, and without z the place is what a map shows there, the uppermost surface.
    """

    x: Finite
    y: Finite
    z: Finite | None = None
    view: Count | None = None


class Action(Struct, frozen=True, omit_defaults=True):
    """What a reply asks for, as `FIELDS` declares it; the run log has only what was asked for.

    rotation, pitch: degrees. forward, left, up: metres, in the heading after the rotation. look_at: metres, world
    frame. answer: canonical, or None. answer_text: the answer in the model's own words, set even if it could not be
    read. notes: what the model must be told about its reply.
    """

    rotation: Finite = 0.0
    pitch: Finite = 0.0
    forward: Finite = 0.0
    left: Finite = 0.0
    up: Finite = 0.0
    look_at: Point | None = None
    view: str | Count | None = None
    answer: str | None = None
    answer_text: str | None = None
    done: bool = False
    reasoning: str = ""
    notes: tuple[str, ...] = ()
    measure: tuple[Place, ...] = ()

    def __post_init__(self) -> None:
        # What is left out is what is the default itself, not what equals it.
        values = structs.astuple(self)
        fields = zip(self.__struct_fields__, values, self.__struct_defaults__, strict=True)
        for name, value, default in fields:
            if value is not default and value == default:
                structs.force_setattr(self, name, default)

    @property
    def moves(self) -> bool:
        """True if it asks for a change of the camera's pose."""
        return self.look_at is not None or any(
            getattr(self, field.attribute) for field in FIELDS if field.amount is not None
        )

    @property
    def measures_only(self) -> bool:
        """True if it asks for measurements but for no move or view."""
        return bool(self.measure) and not self.moves and self.view is None


class Malformed(Struct, frozen=True, omit_defaults=True):
    """A reply that asks for nothing that can be understood, and why; `answer_text` as in `Action`."""

    reason: str = field(name="malformed")
    answer_text: str | None = None
    answer: None = None


ReadReply = Either[Malformed, Action]
"""What a reply was understood as."""


Mode = Literal["free", "passive", "blind", "graph"]
"""Who chooses the views: the model (free) or the run (passive); or there are none (blind), or a scene graph instead."""


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """What a reply may contain in a run, and the wording of the texts about it.

    kinds: kinds of view that a reply may request; empty unless the mode is free. picture_size: width and height of
    the views in pixels if a reply may ask for measurements, else None.
    """

    mode: Mode = "free"
    kinds: tuple[str, ...] = KINDS
    picture_size: tuple[int, int] | None = None
    wording: Wording = dataclass_field(default_factory=general)

    @property
    def fields(self) -> list[ReplyField]:
        """The fields that are read: measurements only if allowed, and none whose sentence the wording leaves empty."""
        return [
            field
            for field in FIELDS
            if (field.used != "measuring" or self.picture_size is not None)
            and (field.sentence is None or self.wording.templates[f"fields.{field.sentence}"])
        ]

    @property
    def requested_fields(self) -> list[ReplyField]:
        """The fields that the model is told about: those that are read, but no moves and views unless it explores."""
        return [field for field in self.fields if self.kinds or field.used == "always"]

    def meanings(self) -> list[tuple[list[ReplyField], str]]:
        """Return what the fields mean that the model is told about; those that share a sentence are one item."""
        width, height = self.picture_size or (0, 0)
        meanings = []
        for sentence, group in groupby(self.requested_fields, lambda field: field.sentence):
            if sentence is None:
                continue
            fields = [*group]
            meaning = self.say(
                sentence,
                limit=f"{fields[0].amount.limit:g}" if fields[0].amount else "",
                max_pitch=f"{MAX_PITCH:g}",
                clearance=f"{CLEARANCE_METRES:g}",
                places=MAX_PLACES,
                width=width,
                height=height,
            )
            meanings.append((fields, meaning))
        return meanings

    def say(self, key: str, **values: object) -> str:
        """Return a text about a field: that of the mode if the wording has one."""
        own = f"fields_{self.mode}.{key}"
        return self.wording(own if own in self.wording.templates else f"fields.{key}", **values)


@dataclass(frozen=True, slots=True)
class Amount:
    """How far the camera turns or moves along one axis.

    limit: largest absolute value in one turn. verb, positive, negative: say a value in words, as in "turn 45° left".
    """

    limit: float
    unit: Literal["°", "m"]
    verb: str
    positive: str
    negative: str

    def describe(self, value: float) -> str | None:
        """Return a value in words, None for 0."""
        unit = "°" if self.unit == "°" else f" {self.unit}"
        direction = self.positive if value > 0 else self.negative
        return f"{self.verb} {abs(value):g}{unit} {direction}" if value else None


@dataclass(frozen=True, slots=True)
class ReplyField:
    """The declaration of one field of a reply.

    Attributes:
        name: Its key in a reply.
        attribute: The attribute of `Action` that has its value.
        parse: Converts a JSON value to the attribute's, None if it is invalid; None if `read_fields` does so itself.
        expected: Key of the wording's section `reply`: what a valid value is.
        schema: JSON schema of its values in a run.
        sentence: Key of the wording's section `fields`: what the field means. Neighbours with the same key share a
            line of the instructions; None has no line.
        example: Value in the example of the instructions.
        describe: What an action asks for with the field, in a few words; None for nothing.
        used: "exploring" if only a model that chooses its views has the field, "measuring" if it also needs
            `--tools measure`.
        required: True if the schema requires the field.
        begins_line: True if the field begins a line of the example.
        amount: Limit, unit and words of a number.
    """

    name: str
    attribute: str
    parse: Callable[[object], Any] | None
    expected: str
    schema: Callable[[ReplyForm], Schema]
    sentence: str | None
    describe: Callable[[Action], str | None]
    example: Callable[[ReplyForm], object] = lambda form: None
    used: Literal["always", "exploring", "measuring"] = "always"
    required: bool = False
    begins_line: bool = False
    amount: Amount | None = None


def describe_action(action: Action | Malformed) -> list[str]:
    """Return what a reply asks for, one clause per field, in the order in which it is carried out."""
    if isinstance(action, Malformed):
        return [f"nothing that could be read: {action.reason}"]
    fields = sorted(FIELDS, key=lambda field: field.name != "look_at")  # turns before it moves
    return [words for field in fields if (words := field.describe(action)) is not None]


def object_schema(properties: Mapping[str, Any], required: Sequence[str] | None = None) -> Schema:
    """Return the JSON schema of an object with these properties and no others; all are required unless some are named."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def _amount(
    name: str, attribute: str, sentence: str, amount: Amount, *, begins_line: bool = False
) -> ReplyField:
    return ReplyField(
        name,
        attribute,
        partial(quantity, units=UNITS if amount.unit == "m" else ANGLES),
        "number",
        lambda form: _number(amount.limit),
        sentence,
        lambda action: amount.describe(getattr(action, attribute)),
        lambda form: 0,
        used="exploring",
        begins_line=begins_line,
        amount=amount,
    )


def _number(limit: float) -> Schema:
    return {"type": "number", "minimum": -limit, "maximum": limit}


VIEW_NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 999}
"""JSON schema of the number of an earlier view."""


def _point_schema(min_items: int) -> Schema:
    coordinate = _number(MAX_COORDINATE)
    return {"type": "array", "items": coordinate, "minItems": min_items, "maxItems": 3}


def _places_schema(form: ReplyForm) -> Schema:
    pixel = object_schema({"view": VIEW_NUMBER, "x": _number(MAX_PIXEL), "y": _number(MAX_PIXEL)})
    places = {
        "type": "array",
        "items": {"anyOf": [pixel, _point_schema(2)]},
        "minItems": 1,
        "maxItems": MAX_PLACES,
    }
    return {"anyOf": [places, {"type": "null"}]}


def _point(value: object) -> Point | None:
    if isinstance(value, Mapping):
        value = [value.get(axis) for axis in "xyz"]
    numbers = [quantity(item, UNITS) for item in value] if isinstance(value, list) else []
    x, y, z = numbers if len(numbers) == 3 else (None, None, None)
    return None if x is None or y is None or z is None else (x, y, z)


def _view(value: object) -> str | int | None:
    word = value.strip().lower() if isinstance(value, str) else ""
    if match := re.fullmatch(rf"({'|'.join(KINDS)})(?:[ _-]?view)?", word):
        return match[1]
    if match := re.fullmatch(r"(?:view)?[ #]*([0-9]{1,9})", word):
        value = int(match[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < MAX_VIEW_NUMBER else None


def _places(value: object) -> tuple[Place, ...] | None:
    """Return places to measure at; one alone may stand without a list around it."""
    alone = isinstance(value, Mapping) or (
        isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in value)
    )
    items = [value] if alone else value
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_PLACES:
        return None
    places = tuple(place for item in items if (place := _place(item)) is not None)
    return places if len(places) == len(items) else None


def _place(value: object) -> Place | None:
    if isinstance(value, Mapping):
        fields = {str(name).strip().lower(): item for name, item in value.items()}
        if (wish := fields.get("view")) is not None:
            view = _view(wish)
            x, y = (quantity(fields.get(axis), {}) for axis in "xy")
            if not isinstance(view, int) or x is None or y is None:
                return None
            return Place(x, y, view=view)
        value = [fields[axis] for axis in "xyz" if fields.get(axis) is not None]
    items = value if isinstance(value, list) else []
    numbers = [number for item in items if (number := quantity(item, UNITS)) is not None]
    if not len(numbers) == len(items) in (2, 3):
        return None
    return Place(numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else None)


def _truth(value: object) -> bool | None:
    if isinstance(value, bool | int | float):
        return bool(value) if value in (0, 1) else None
    word = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(word)


def _coordinates(point: Sequence[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in point)})"


def _look_at_words(action: Action) -> str | None:
    return None if action.look_at is None else f"look at {_coordinates(action.look_at)}"


def _view_words(action: Action) -> str | None:
    if isinstance(action.view, int):
        return f"show view {action.view} again"
    return action.view and f"show {'a map' if action.view == 'top' else action.view}"


def _measure_words(action: Action) -> str | None:
    places = [
        _coordinates([value for value in (place.x, place.y, place.z) if value is not None])
        if place.view is None
        else f"pixel ({place.x:g}, {place.y:g}) of view {place.view}"
        for place in action.measure
    ]
    return f"measure at {', '.join(places)}" if places else None


def _answer_words(action: Action) -> str | None:
    if action.answer is not None:
        return f"{'answer' if action.done else 'answer so far'}: {action.answer}"
    text = action.answer_text
    return None if text is None else f"an answer that could not be read: {text}"


FIELDS: tuple[ReplyField, ...] = (
    ReplyField("reasoning", "reasoning", None, "", lambda form: {"type": "string"}, None, lambda action: None,
               example=lambda form: form.say("reasoning_example"), required=True),
    _amount("rotation_angle_degrees", "rotation", "rotation", Amount(MAX_ROTATION_DEGREES, "°", "turn", "left", "right"),
            begins_line=True),
    _amount("pitch_degrees", "pitch", "pitch", Amount(round(2 * MAX_PITCH), "°", "tilt", "up", "down")),
    _amount("forward_meters", "forward", "move", Amount(MAX_MOVE_METRES, "m", "move", "forward", "back"),
            begins_line=True),
    _amount("left_meters", "left", "move", Amount(MAX_MOVE_METRES, "m", "move", "to the left", "to the right")),
    _amount("z_delta_meters", "up", "move", Amount(MAX_MOVE_METRES, "m", "move", "up", "down")),
    ReplyField("look_at", "look_at", _point, "point", lambda form: {"anyOf": [_point_schema(3), {"type": "null"}]},
               "look_at", _look_at_words, used="exploring", begins_line=True),
    ReplyField("view", "view", _view, "view", lambda form: {"anyOf": [{"enum": [*form.kinds, None]}, VIEW_NUMBER]},
               "view", _view_words, lambda form: form.kinds[0], used="exploring"),
    ReplyField("measure", "measure", _places, "places", _places_schema, "measure", _measure_words,
               used="measuring", begins_line=True),
    ReplyField("answer", "answer", None, "", lambda form: {"anyOf": [{"type": t} for t in ("string", "number", "null")]},
               "answer", _answer_words, lambda form: form.say("answer_example") if form.mode == "passive" else None,
               required=True),
    ReplyField("done", "done", _truth, "truth", lambda form: {"type": "boolean"}, "done",
               lambda action: "done" if action.done else None, lambda form: form.mode == "passive", required=True),
)  # fmt: skip
"""The fields of a reply, in the order in which the instructions and the schema have them."""
