"""What a reply asks for: the reply protocol, read from any text without ever raising.

A reply is one JSON object:

    {"reasoning": "…", "rotation_angle_degrees": 45, "pitch_degrees": 0, "forward_meters": 0.5,
     "left_meters": 0, "z_delta_meters": 0, "look_at": null, "view": "ego", "answer": null,
     "done": false}

Every field may be missing. The last whole object in the text counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from render_agent.answer import Wanted, asked_for, canonical
from render_agent.chat import without_thinking
from render_agent.numerals import ANGLES, UNITS, quantity

KINDS = ("ego", "top", "around")
"""The kinds of view that a reply may ask for."""

LONGEST_REPLY = 50_000
"""Characters of a reply that are read, counted from its end."""

Point = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Action:
    """What a reply asks for.

    rotation: degrees, positive turns left. pitch: degrees added to the camera's, positive looks up.
    forward, left, up: metres, in the heading after the rotation. look_at: metres, world frame.
    view: a kind of view, or the number of an earlier one. answer: canonical, or None. answer_text:
    the same in the model's own words (also where it could not be read). notes: what the model must
    be told about its reply.
    """

    rotation: float = 0.0
    pitch: float = 0.0
    forward: float = 0.0
    left: float = 0.0
    up: float = 0.0
    look_at: Point | None = None
    view: str | int | None = None
    answer: str | None = None
    answer_text: str | None = None
    done: bool = False
    reasoning: str = ""
    notes: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether the camera is asked to change its pose."""
        steps = (self.rotation, self.pitch, self.forward, self.left, self.up)
        return any(steps) or self.look_at is not None

    def to_json(self) -> dict[str, Any]:
        """Return the action as the run log writes it: only what was asked for."""
        return {
            name: value for name, value in asdict(self).items() if value not in (None, 0, "", ())
        }


@dataclass(frozen=True, slots=True)
class Malformed:
    """A reply that asks for nothing that can be understood, and why; `answer_text` as in `Action`."""

    reason: str
    answer_text: str | None = None
    answer: None = None

    def to_json(self) -> dict[str, Any]:
        """Return the fault as the run log writes it."""
        given = {} if self.answer_text is None else {"answer_text": self.answer_text}
        return {"malformed": self.reason, **given}


def from_json(data: Mapping[str, Any]) -> Action | Malformed:
    """Return the action or the fault that `to_json` wrote."""
    if "malformed" in data:
        return Malformed(data["malformed"], data.get("answer_text"))
    known = {field.name for field in fields(Action)}
    values = {name: value for name, value in data.items() if name in known}
    for name in ("look_at", "notes"):
        if name in values:
            values[name] = tuple(values[name])
    return Action(**values)


class _Unclear(Exception):
    """A field that cannot be understood."""


def read(text: str, wanted: Wanted, options: Sequence[str] = ()) -> Action | Malformed:
    """Return what the reply `text` asks for; it never raises.

    wanted, options: what an answer to the question must be (see `render_agent.answer`).
    """
    found = _last_object(without_thinking(text))
    if isinstance(found, Malformed):
        return found
    known = {str(name).strip().lower(): value for name, value in found.items()}
    try:
        action = _action(known, wanted, options)
    except _Unclear as unclear:
        return Malformed(str(unclear), _words(known.get("answer")))
    asks = action.moves or action.view is not None or action.answer is not None
    if not asks and (action.notes or not action.done):
        return Malformed(
            "; ".join(action.notes)
            or "it asks for nothing: give a move, look_at, view, answer or done",
            action.answer_text,
        )
    return action


def _last_object(text: str) -> dict[str, Any] | Malformed:
    text = text[-LONGEST_REPLY:].rstrip()
    if not text.strip():
        return Malformed("it is empty: reply with one JSON object")
    decoder = json.JSONDecoder(strict=False)
    found: dict[str, Any] | None = None
    fault = "it holds no JSON object: reply with one JSON object"
    start = text.find("{")
    while start >= 0:
        try:
            found, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if error.pos >= len(text) or error.msg.startswith("Unterminated"):
                fault = "its JSON object is cut off before the closing brace: write less"
                break
            fault = f"its JSON object cannot be read ({error.msg[:1].lower()}{error.msg[1:]})"
            end = start + 1
        except (
            RecursionError,
            ValueError,
        ):  # nested too deeply, or an integer of thousands of digits
            fault, end = "its JSON object cannot be read", len(text)
        start = text.find("{", end)
    return Malformed(fault) if found is None else found


def _action(known: Mapping[str, Any], wanted: Wanted, options: Sequence[str]) -> Action:
    answer_text = _words(known.get("answer"))
    answer = canonical(answer_text, wanted, options) if answer_text is not None else None
    done = _truth(known.get("done"))
    notes = []
    if answer_text is not None and answer_text.strip() and answer is None:
        shown = answer_text if len(answer_text) <= 40 else answer_text[:40] + "…"
        notes.append(
            f"the answer {shown!r} cannot be read: it must be {asked_for(wanted, options)}"
        )
    return Action(
        rotation=_amount(known, "rotation_angle_degrees", ANGLES),
        pitch=_amount(known, "pitch_degrees", ANGLES),
        forward=_amount(known, "forward_meters", UNITS),
        left=_amount(known, "left_meters", UNITS),
        up=_amount(known, "z_delta_meters", UNITS),
        look_at=_point(known.get("look_at")),
        view=_view(known.get("view")),
        answer=answer,
        answer_text=answer_text,
        done=done,
        reasoning=_words(known.get("reasoning")) or "",
        notes=tuple(notes),
    )


def _empty(value: object) -> bool:
    return value is None or (
        isinstance(value, str) and value.strip().lower() in ("", "null", "none")
    )


def _words(value: object) -> str | None:
    if value is None:
        return None
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _amount(known: Mapping[str, Any], name: str, units: dict[str, float]) -> float:
    value = known.get(name)
    if _empty(value):
        return 0.0
    number = quantity(value, units)
    if number is None:
        raise _Unclear(f"{name} must be a number, not {_short(value)}")
    return number


def _point(value: object) -> Point | None:
    if isinstance(value, Mapping):
        value = [value.get(axis) for axis in "xyz"]
    if _empty(value) or value == [] or value == [None, None, None]:
        return None
    numbers = [quantity(item, UNITS) for item in value] if isinstance(value, list) else []
    x, y, z = numbers if len(numbers) == 3 else (None, None, None)
    if x is None or y is None or z is None:
        raise _Unclear(f"look_at must be a point [x, y, z] in metres, not {_short(value)}")
    return x, y, z


def _view(value: object) -> str | int | None:
    if _empty(value):
        return None
    if isinstance(value, str):
        word = value.strip().lower()
        if word in KINDS:
            return word
        value = int(match[1]) if (match := re.fullmatch(r"(?:view\s*)?(\d{1,6})", word)) else value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    kinds = ", ".join(f'"{kind}"' for kind in KINDS)
    raise _Unclear(
        f"view must be one of {kinds} or the number of an earlier view, not {_short(value)}"
    )


def _truth(value: object) -> bool:
    if _empty(value):
        return False
    if isinstance(value, bool | int | float) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in ("true", "yes", "1"):
        return True
    if word in ("false", "no", "0"):
        return False
    raise _Unclear(f"done must be true or false, not {_short(value)}")


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 40 else text[:40] + "…"
