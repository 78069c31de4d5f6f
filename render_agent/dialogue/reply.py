"""The fields of a reply, declared once in `FIELDS` and parsed into an `Action`.

The parser, the JSON schema, the instructions, the tools, the docs, the input form of `play`, the methods for TRL and the
report texts are generated from these declarations. To add a field, add an attribute to `Action`, an entry to `FIELDS`, a sentence to
`wording.yaml`, and the code that acts on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import partial
from itertools import groupby
from typing import Any, Literal

from msgspec import Struct, field, structs

from render_agent.dialogue.answer import Permitted
from render_agent.dialogue.wording import Wording, general
from render_agent.options import VIEW_TYPES
from render_agent.scans.camera import MAX_PITCH
from render_agent.scans.free_space.standing import CLEARANCE_METRES
from render_agent.util.numbers import ANGLES, UNITS, parse_quantity
from render_agent.util.safe_parse import Count, Either, Finite, Percent, parse_json

MAX_ROTATION_DEGREES = 180  # per turn
MAX_MOVE_METRES = 2  # per turn and axis
MAX_VIEW_NUMBER = 1_000_000  # exclusive upper bound of view numbers
MAX_PLACES = 6  # places to measure per reply
MAX_COORDINATE = 1_000  # metres; limit in the JSON schema
MAX_PIXEL = 100_000  # limit of a column or row in the JSON schema

Point = tuple[Finite, Finite, Finite]

Schema = dict[str, Any]


class Written(float):
    """A number in a reply, which keeps its digits as written."""

    def __new__(cls, digits: str) -> Written:
        number = super().__new__(cls, digits)
        number.digits = digits
        return number

    digits: str


class Repeated(list[Any]):
    """Two different values given for the same name in a JSON object."""


def merge_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return values by name in lower case, ignoring empty ones; different values for a name become a `Repeated`."""
    values: dict[str, Any] = {}
    for key, value in pairs:
        name = key.strip().lower()
        earlier = values.get(name)
        if earlier is None or earlier == "":
            values[name] = value
        elif value not in (None, "") and value != earlier and not isinstance(earlier, Repeated):
            values[name] = Repeated((earlier, value))
    return values


class Place(Struct, frozen=True, omit_defaults=True):
    """A place to measure: a pixel of a view, or a point in the scene."""

    x: Finite  # column of the pixel from the left, or metres in the world frame
    y: Finite  # row of the pixel from the top, or metres in the world frame
    z: Finite | None = None
    """Metres in the world frame; None for the topmost surface at (x, y), as shown on a map. None for a pixel."""
    view: Count | None = None  # number of the view that contains the pixel; None for a point


class Action(Struct, frozen=True, omit_defaults=True):
    """A parsed reply; its fields are declared in `FIELDS`. The run log omits fields with default values."""

    rotation: Finite = 0.0
    pitch: Finite = 0.0
    forward: Finite = 0.0  # metres, in the heading after the rotation
    left: Finite = 0.0  # metres, in the heading after the rotation
    up: Finite = 0.0
    look_at: Point | None = None  # point to face, (3,) metres, world frame
    view: str | Count | None = None  # requested view type, or the number of an earlier view
    answer: str | None = None
    """The canonical answer; None if there is none or it could not be parsed."""
    answer_text: str | None = None
    """The answer in the model's own words, set even if it could not be parsed."""
    confidence: Percent | None = None  # in the answer, in percent; None if not given
    done: bool = False  # True if the reply ends the dialogue
    reasoning: str = ""
    notes: tuple[str, ...] = ()  # remarks on the reply to be reported to the model
    measure: tuple[Place, ...] = ()
    repaired: bool = False
    """True if the reply was not plain JSON as requested: its syntax was repaired, or it was a tool call
    written as text.
    """

    def __post_init__(self) -> None:
        # msgspec omits defaults by identity, not equality: replace equal values with the default object.
        values = structs.astuple(self)
        fields = zip(self.__struct_fields__, values, self.__struct_defaults__, strict=True)
        for name, value, default in fields:
            if value is not default and value == default:
                structs.force_setattr(self, name, default)

    @property
    def requests_move(self) -> bool:
        """True if the action requests a change of the camera's pose."""
        return any(getattr(self, field.attribute) for field in FIELDS if field.moves)

    @property
    def requests_step(self) -> bool:
        """True if the action does more than state an answer."""
        return structs.replace(self.without_remarks, repaired=False) != Action()

    @property
    def without_remarks(self) -> Action:
        """The action without its answer and what only accompanies it."""
        remarks = {
            field.attribute: getattr(_EMPTY, field.attribute) for field in FIELDS if field.is_remark
        }
        return structs.replace(self, answer=None, answer_text=None, notes=(), **remarks)

    @property
    def requests_only_measurements(self) -> bool:
        """True if the action requests measurements but no move or view."""
        return bool(self.measure) and not self.requests_move and self.view is None


class Malformed(Struct, frozen=True, omit_defaults=True):
    """A reply that could not be parsed, and the reason. `answer_text` is as in `Action`."""

    reason: str = field(name="malformed")
    answer_text: str | None = None
    answer: None = None


ParsedReply = Either[Malformed, Action]  # the result of parsing a reply

FinishReason = Literal["stop", "length"]  # length: the reply was cut off at the token limit

# Who chooses the views: the model (free) or the run (passive). In blind mode there are no views, in graph mode a
# scene graph.
Mode = Literal["free", "passive", "blind", "graph"]


@dataclass(frozen=True)
class ReplyForm:
    """The fields that replies may contain in a run, and the wording of their descriptions."""

    mode: Mode = "free"
    kinds: tuple[str, ...] = VIEW_TYPES
    """View types that a reply may request; empty unless the mode is free."""
    image_size: tuple[int, int] | None = None
    """Width and height of the views in pixels if replies may request measurements; otherwise None."""
    wording: Wording = dataclass_field(default_factory=general)
    asks_confidence: bool = False
    """True if replies state the confidence in their answer."""

    @property
    def fields(self) -> list[ReplyField]:
        """The fields that are parsed: no measurements or confidence unless enabled, and no fields with an empty
        description.
        """
        return [
            field
            for field in FIELDS
            if (field.used != "measuring" or self.image_size is not None)
            and (field.used != "confident" or self.asks_confidence)
            and (field.sentence is None or self.wording.templates[f"fields.{field.sentence}"])
        ]

    @property
    def requested_fields(self) -> list[ReplyField]:
        """The fields described to the model: all parsed fields, but moves and views only if it explores."""
        passive = ("always", "confident")
        return [field for field in self.fields if self.kinds or field.used in passive]

    def meanings(self) -> list[tuple[list[ReplyField], str]]:
        """Return (fields, description) for the requested fields. Adjacent fields with the same description form one
        group.
        """
        width, height = self.image_size or (0, 0)
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
        """Return a text about a field; a mode-specific text takes precedence."""
        mode_key = f"fields_{self.mode}.{key}"
        return self.wording(
            mode_key if mode_key in self.wording.templates else f"fields.{key}", **values
        )


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in a reply: how far the camera turns or moves along one axis."""

    limit: float  # largest absolute value per turn
    unit: Literal["°", "m"]  # degrees or metres
    verb: str
    positive: str  # direction of positive values, as in "turn 45° left"
    negative: str

    def describe(self, value: float) -> str | None:
        """Return a value in words, such as "turn 45° left"; None for 0."""
        unit = "°" if self.unit == "°" else f" {self.unit}"
        direction = self.positive if value > 0 else self.negative
        return f"{self.verb} {abs(value):g}{unit} {direction}" if value else None


@dataclass(frozen=True, slots=True)
class ReplyField:
    """The declaration of one field of a reply."""

    name: str
    attribute: str  # attribute of `Action` that holds the value
    parse: Callable[[object], Any] | None
    """Converts a JSON value, returning None if it is invalid; None if `read_fields` parses the field itself."""
    expected: str  # key in the wording's section `reply` that describes valid values
    schema: Callable[[ReplyForm], Schema]  # returns the JSON schema of the values in a run
    sentence: str | None
    """Key in the wording's section `fields` that describes the field; None for no description. Adjacent fields
    with the same key share a line of the instructions.
    """
    describe: Callable[[Action], str | None]
    """Returns the field's part of an action in a few words; None if the action does not use it."""
    example: Callable[[ReplyForm], object] = lambda form: None
    """Returns the value shown in the example of the instructions."""
    used: Literal["always", "exploring", "measuring", "confident"] = "always"
    """"exploring" if the model must choose its views, "measuring" if it also needs `--tools measure`, "confident" with
    `--confidence on`.
    """
    is_remark: bool = False  # True if it requests nothing
    required: bool = False  # True if the schema requires the field
    begins_line: bool = False  # True if the field starts a new line in the example
    amount: Amount | None = None  # limit, unit and words of a number; None for other fields
    moves: bool = False  # True if it changes the camera's pose
    tools: tuple[str, ...] = ()
    """Tools of `--reply-protocol tools` that have it as a parameter; its own tool comes first."""

    @property
    def is_flag(self) -> bool:
        """True if its values are true and false."""
        return self.parse is _boolean


def describe_action(action: Action | Malformed) -> list[str]:
    """Describe a parsed reply, one clause per field, in order of execution."""
    if isinstance(action, Malformed):
        return [f"unreadable reply: {action.reason}"]
    # The camera turns before it moves.
    fields = sorted(FIELDS, key=lambda field: field.name != "look_at")
    return [clause for field in fields if (clause := field.describe(action)) is not None]


def field_schemas(form: ReplyForm, permitted: Permitted | None) -> dict[str, Schema]:
    """Return the JSON schemas of the requested fields, given the permitted answers; None for those to any question."""
    schemas = {field.name: field.schema(form) for field in form.requested_fields}
    return schemas if permitted is None else schemas | {"answer": permitted.schema}


def object_schema(properties: Mapping[str, Any], required: Sequence[str] | None = None) -> Schema:
    """Return the JSON schema of an object with exactly these properties; all are required unless `required` is given."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def _amount(
    name: str,
    attribute: str,
    sentence: str,
    amount: Amount,
    *tools: str,
    begins_line: bool = False,
) -> ReplyField:
    return ReplyField(
        name,
        attribute,
        partial(_quantity, units=UNITS if amount.unit == "m" else ANGLES),
        "number",
        lambda form: _number(amount.limit),
        sentence,
        lambda action: amount.describe(getattr(action, attribute)),
        lambda form: 0,
        used="exploring",
        begins_line=begins_line,
        amount=amount,
        moves=True,
        tools=tools,
    )


def _quantity(value: object, units: dict[str, float]) -> float | None:
    """Parse a number, or a text with a number and a unit."""
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return parse_quantity(value, units)


def _number(limit: float) -> Schema:
    return {"type": "number", "minimum": -limit, "maximum": limit}


VIEW_NUMBER: Schema = {"type": "integer", "minimum": 0, "maximum": 999}  # number of an earlier view


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


def _decoded(value: object) -> object:
    """Return the array or object in a text, as some clients send it."""
    if not isinstance(value, str) or not value.lstrip().startswith(("[", "{")):
        return value
    try:
        return parse_json(value)
    except ValueError:
        return value


def _point(value: object) -> Point | None:
    value = _decoded(value)
    if isinstance(value, Mapping):
        value = [value.get(axis) for axis in "xyz"]
    numbers = [parse_quantity(item, UNITS) for item in value] if isinstance(value, list) else []
    x, y, z = numbers if len(numbers) == 3 else (None, None, None)
    return None if x is None or y is None or z is None else (x, y, z)


def _view(value: object) -> str | int | None:
    word = value.strip().lower() if isinstance(value, str) else ""
    if match := re.fullmatch(rf"({'|'.join(VIEW_TYPES)})(?:[ _-]?view)?", word):
        return match[1]
    if match := re.fullmatch(r"(?:view)?[ #]*([0-9]{1,9})", word):
        value = int(match[1])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    return value if 0 <= value < MAX_VIEW_NUMBER else None


def _places(value: object) -> tuple[Place, ...] | None:
    """Parse the places to measure; a single place need not be in a list."""
    value = _decoded(value)
    is_single = isinstance(value, Mapping) or (
        isinstance(value, list) and not any(isinstance(item, Mapping | list) for item in value)
    )
    items = [value] if is_single else value
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_PLACES:
        return None
    places = tuple(place for item in items if (place := _place(item)) is not None)
    return places if len(places) == len(items) else None


def _place(value: object) -> Place | None:
    if isinstance(value, Mapping):
        fields = {str(name).strip().lower(): item for name, item in value.items()}
        if (number := fields.get("view")) is not None:
            view = _view(number)
            x, y = (parse_quantity(fields.get(axis), {}) for axis in "xy")
            if not isinstance(view, int) or x is None or y is None:
                return None
            return Place(x, y, view=view)
        value = [fields[axis] for axis in "xyz" if fields.get(axis) is not None]
    items = value if isinstance(value, list) else []
    metres = [length for item in items if (length := parse_quantity(item, UNITS)) is not None]
    if not len(metres) == len(items) in (2, 3):
        return None
    return Place(metres[0], metres[1], metres[2] if len(metres) == 3 else None)


def _boolean(value: object) -> bool | None:
    if isinstance(value, bool | int | float):
        return bool(value) if value in (0, 1) else None
    word = value.strip().lower() if isinstance(value, str) else ""
    return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(word)


def _percent(value: object) -> float | None:
    percent = parse_quantity(value, {"%": 1.0, "percent": 1.0})
    return percent if percent is not None and 0 <= percent <= 100 else None


def _coordinates(point: Sequence[float]) -> str:
    return f"({', '.join(f'{value:g}' for value in point)})"


def _describe_look_at(action: Action) -> str | None:
    return None if action.look_at is None else f"look at {_coordinates(action.look_at)}"


def _describe_view(action: Action) -> str | None:
    if isinstance(action.view, int):
        return f"show view {action.view} again"
    return action.view and f"show {'a map' if action.view == 'top' else action.view}"


def _describe_measure(action: Action) -> str | None:
    places = [
        _coordinates([value for value in (place.x, place.y, place.z) if value is not None])
        if place.view is None
        else f"pixel ({place.x:g}, {place.y:g}) of view {place.view}"
        for place in action.measure
    ]
    return f"measure at {', '.join(places)}" if places else None


def _describe_answer(action: Action) -> str | None:
    if action.answer is not None:
        return f"{'answer' if action.done else 'answer so far'}: {action.answer}"
    text = action.answer_text
    return None if text is None else f"unreadable answer: {text}"


_PERCENT: Schema = {"type": "number", "minimum": 0, "maximum": 100}

TOOLS = ("look", "move", "measure", "answer")  # names as in the agents of embodied benchmarks


def tool_fields(tool: str) -> list[ReplyField]:
    """Return the fields that are parameters of a tool; a tool without one of its own has none."""
    fields = [field for field in FIELDS if tool in field.tools]
    return fields if any(field.tools[0] == tool for field in fields) else []


_EMPTY = Action()

# All fields of a reply, in the order of the instructions and the schema.
FIELDS: tuple[ReplyField, ...] = (
    ReplyField("reasoning", "reasoning", None, "", lambda form: {"type": "string"}, None, lambda action: None,
               example=lambda form: form.say("reasoning_example"), is_remark=True, required=True),
    _amount("rotation_angle_degrees", "rotation", "rotation", Amount(MAX_ROTATION_DEGREES, "°", "turn", "left", "right"),
            "look", "move", begins_line=True),
    _amount("pitch_degrees", "pitch", "pitch", Amount(round(2 * MAX_PITCH), "°", "tilt", "up", "down"), "look"),
    _amount("forward_meters", "forward", "move", Amount(MAX_MOVE_METRES, "m", "move", "forward", "back"),
            "move", begins_line=True),
    _amount("left_meters", "left", "move", Amount(MAX_MOVE_METRES, "m", "move", "to the left", "to the right"), "move"),
    _amount("z_delta_meters", "up", "move", Amount(MAX_MOVE_METRES, "m", "move", "up", "down"), "move"),
    ReplyField("look_at", "look_at", _point, "point", lambda form: {"anyOf": [_point_schema(3), {"type": "null"}]},
               "look_at", _describe_look_at, used="exploring", begins_line=True, moves=True, tools=("look",)),
    ReplyField("view", "view", _view, "view", lambda form: {"anyOf": [{"enum": [*form.kinds, None]}, VIEW_NUMBER]},
               "view", _describe_view, lambda form: form.kinds[0], used="exploring", tools=("look", "move")),
    ReplyField("measure", "measure", _places, "places", _places_schema, "measure", _describe_measure,
               used="measuring", begins_line=True, tools=("measure",)),
    ReplyField("answer", "answer", None, "", lambda form: {"anyOf": [{"type": t} for t in ("string", "number", "null")]},
               "answer", _describe_answer, lambda form: form.say("answer_example") if form.mode == "passive" else None,
               required=True, tools=("answer",)),
    ReplyField("confidence", "confidence", _percent, "percent", lambda form: {"anyOf": [_PERCENT, {"type": "null"}]}, "confidence",
               lambda action: None if action.confidence is None else f"{action.confidence:g} % sure",
               used="confident", is_remark=True, required=True, tools=("answer",)),
    ReplyField("done", "done", _boolean, "truth", lambda form: {"type": "boolean"}, "done",
               lambda action: "done" if action.done else None, lambda form: form.mode == "passive", required=True, tools=("answer",)),
)  # fmt: skip
