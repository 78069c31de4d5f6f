"""What a reply asks for: the reply protocol, read from any text without ever raising.

A reply is one JSON object:

    {"reasoning": "…", "rotation_angle_degrees": 45, "pitch_degrees": 0, "forward_meters": 0.5,
     "left_meters": 0, "z_delta_meters": 0, "look_at": null, "view": "ego", "answer": null,
     "done": false}

Every field may be missing or null, other fields are ignored, names are read in any case, and of a
name that stands twice the last counts. The last whole object in the text counts, whatever stands
around it. It must be JSON, but for line breaks inside strings, which are forgiven: single quotes,
trailing commas and Python's True are told to the model, not guessed at.

With `--tools measure` a reply has one more field: `measure`, places as `Place` has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, field, structs

from render_agent.dialogue.answer import AnswerForm, answer_form, canonical
from render_agent.dialogue.chat import encodable, without_thinking
from render_agent.dialogue.wording import Wording, general
from render_agent.util.numbers import ANGLES, UNITS, quantity
from render_agent.util.reasons import shortened
from render_agent.util.safe_parse import Count, Either, Finite

KINDS = ("ego", "top", "around")
"""The kinds of view that a reply may ask for."""

MAX_VIEW_NUMBER = 1_000_000
"""No view has a number as high as this."""

MAX_SCANNED_CHARACTERS = 500_000_000
"""Characters that may be looked through for broken objects; a fraction of a second."""

MAX_PLACES = 6
"""Places that a reply may measure at."""

_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
_OBJECT = re.compile(r"\{(?=\s*(?:[\"}]|\Z))")

Point = tuple[Finite, Finite, Finite]

Field = tuple[str, Callable[[object], Any], str]
"""Where an Action keeps a field of a reply, how its value is understood, and the key of `reply` in the wording that says what it must be."""


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
    """What a reply asks for; the run log has only what was asked for.

    rotation: degrees, positive turns left. pitch: degrees added to the camera's, positive looks up.
    forward, left, up: metres, in the heading after the rotation. look_at: metres, world frame.
    view: a kind of view, or the number of an earlier one. answer: canonical, or None. answer_text:
    the same in the model's own words (also where it could not be read). notes: what the model must
    be told about its reply. measure: the places to measure at.
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
        """Whether the camera is asked to change its pose."""
        steps = (self.rotation, self.pitch, self.forward, self.left, self.up)
        return any(steps) or self.look_at is not None

    @property
    def measures_only(self) -> bool:
        """Whether it asks for measurements and for nothing to be shown."""
        return bool(self.measure) and not self.moves and self.view is None


class Malformed(Struct, frozen=True, omit_defaults=True):
    """A reply that asks for nothing that can be understood, and why; `answer_text` as in `Action`."""

    reason: str = field(name="malformed")
    answer_text: str | None = None
    answer: None = None


ReadReply = Either[Malformed, Action]
"""What a reply was understood as."""


def read(
    text: str,
    wanted: AnswerForm,
    options: Sequence[str] = (),
    *,
    measures: bool = False,
    wording: Wording | None = None,
) -> Action | Malformed:
    """Parse the reply `text` into an action; it never raises, and takes time linear in the text.

    wanted, options: what an answer to the question must be (see `render_agent.dialogue.answer`). measures: whether
    it may ask for measurements; where it may not, that field is ignored as any other that is unknown. wording: says
    what is wrong with it; the general one unless given.
    """
    say = wording or general()
    try:
        fields = last_object(without_thinking(text), say)
        if isinstance(fields, Malformed):
            return fields
        return _understood(fields, wanted, options, _MEASURING if measures else {}, say)
    except RecursionError:
        return Malformed(say("reply.nested"))


def last_object(text: str, wording: Wording) -> dict[str, Any] | Malformed:
    """Return the last whole JSON object in a text, or why there is none. RecursionError where it is nested too deeply."""
    text = text.rstrip()
    if not text:
        return Malformed(wording("reply.empty"))
    decoder = json.JSONDecoder(strict=False, parse_int=_integer)
    last: dict[str, Any] | None = None
    fault = wording("reply.single_quotes" if "{" in text else "reply.no_object")
    patience = MAX_SCANNED_CHARACTERS
    opening = _OBJECT.search(text)
    while opening and patience > 0:
        start = opening.start()
        try:
            last, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if _cut_off(error, text):
                fault = wording("reply.cut_off")
                break
            fault = wording("reply.invalid", error=f"{error.msg[:1].lower()}{error.msg[1:]}")
            end = max(error.pos, start + 1)  # what was understood up to here belongs to this object
            patience -= error.pos  # the decoder counts the lines before every error
        except RecursionError:
            fault = wording("reply.nested")
            break
        opening = _OBJECT.search(text, end)
    return Malformed(fault) if last is None else last


def object_schema(
    properties: Mapping[str, Any], required: Sequence[str] | None = None
) -> dict[str, Any]:
    """Return the JSON schema of an object with these properties and no others; all are required unless some are named."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties if required is None else required),
        "additionalProperties": False,
    }


def unfenced(text: str) -> str:
    """Return a reply without its think blocks, and without the code fence where one stands around it."""
    reply = without_thinking(text).strip()
    fenced = _FENCED.fullmatch(reply)
    return fenced[1] if fenced else reply


def _cut_off(error: json.JSONDecodeError, text: str) -> bool:
    """Whether a text ended where more was to come."""
    rest = text[error.pos : error.pos + 6]
    in_a_word = any(word.startswith(rest) for word in ("true", "false", "null"))
    return in_a_word or error.msg.startswith("Unterminated")


def _integer(digits: str) -> int | float:
    """Return an integer, as a float where it is so long that only its size can matter."""
    return int(digits) if len(digits) < 20 else float(digits)


def _understood(
    fields: Mapping[str, Any],
    wanted: AnswerForm,
    options: Sequence[str],
    asking: dict[str, Field],
    say: Wording,
) -> Action | Malformed:
    known = {name.strip().lower(): value for name, value in fields.items()}
    answer_text, answer = _answer(known.get("answer"), wanted, options)
    values, faults = _fields(known, {**_FIELDS, **asking}, say)
    notes = [*faults]
    if answer_text is not None and answer is None:
        form = answer_form(wanted, options, say)
        notes.append(say("reply.answer", answer=_short(answer_text), form=form))
    action = Action(
        **values,
        answer=answer,
        answer_text=answer_text,
        reasoning=_as_text(known.get("reasoning")) or "",
        notes=tuple(notes),
    )
    if action.done and answer is not None:
        return action  # what else it asks for is ignored, clear or not
    asks = action.moves or action.view is not None or answer is not None or bool(action.measure)
    if faults or (notes and (action.done or not asks)):
        return Malformed("; ".join(notes), answer_text)
    if not asks and not action.done:
        key = "reply.asks_nothing_measuring" if "measure" in asking else "reply.asks_nothing"
        return Malformed(say(key), answer_text)
    return action


def _answer(
    value: object, wanted: AnswerForm, options: Sequence[str]
) -> tuple[str | None, str | None]:
    """Return an answer in the words it was given in, and in canonical form."""
    answer_text = _as_text(value)
    answer = None if answer_text is None else canonical(answer_text, wanted, options)
    return (None, None) if answer is None and _empty(value) else (answer_text, answer)


def _fields(
    known: Mapping[str, Any], fields: Mapping[str, Field], say: Wording
) -> tuple[dict[str, Any], list[str]]:
    """Return what the fields but answer and reasoning hold, and what is wrong with the others."""
    values: dict[str, Any] = {}
    faults = []
    for name, (attribute, understand, key) in fields.items():
        value = known.get(name)
        if _empty(value):
            continue
        understood = understand(value)
        if understood is None:
            form = say(f"reply.{key}", kinds=", ".join(KINDS), places=MAX_PLACES)
            faults.append(say("reply.field", field=name, form=form, value=_short(value)))
        else:
            values[attribute] = understood
    return values, faults


_degrees, _metres = partial(quantity, units=ANGLES), partial(quantity, units=UNITS)


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


_FIELDS: dict[str, Field] = {
    "rotation_angle_degrees": ("rotation", _degrees, "number"),
    "pitch_degrees": ("pitch", _degrees, "number"),
    "forward_meters": ("forward", _metres, "number"),
    "left_meters": ("left", _metres, "number"),
    "z_delta_meters": ("up", _metres, "number"),
    "look_at": ("look_at", _point, "point"),
    "view": ("view", _view, "view"),
    "done": ("done", _truth, "truth"),
}
"""The fields by name."""

_MEASURING: dict[str, Field] = {"measure": ("measure", _places, "places")}
"""The field that a reply has where it may ask for measurements."""


def _empty(value: object) -> bool:
    if isinstance(value, Mapping | list):
        items = value.values() if isinstance(value, Mapping) else value
        return all(item is None for item in items)
    return value is None or (
        isinstance(value, str) and value.strip().lower() in ("", "null", "none")
    )


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _short(value: object) -> str:
    return shortened(encodable(json.dumps(value, ensure_ascii=False)), 40)
