"""What a model believes about a place: a belief, and the reply to a probe read as one without ever raising.

A reply is one JSON object; its keys are those that the probe asked for (`render_agent.dialogue.probe`):

    {"objects": [{"category": "chair", "position": [1.5, -0.3], "sure": 80, "length_meters": 0.9}],
     "counts": [{"category": "chair", "count": 2}], "position": [0.4, 1.2], "yaw_degrees": 90, "unseen": ["lamp"],
     "floor_square_meters": 14}

What cannot be understood is left out and noted; a reply that holds nothing of what was asked for is `Malformed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Annotated, Any

from msgspec import Meta, Struct

from render_agent.dialogue.chat import encodable, without_thinking
from render_agent.dialogue.json_object import last_object
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.wording import general
from render_agent.util.numbers import ANGLES, UNITS, quantity
from render_agent.util.safe_parse import Count, Finite, NotNegative, parse_json

MAX_OBJECTS = 200
"""Of a map; what follows is left out."""

MAX_NAME_CHARACTERS = 60
"""Of a category."""

MAX_NOTES = 12

MAX_METRES, MAX_COUNT = 1e4, 10_000
"""No object is farther away or longer, and none is there so often."""

SQUARE_METRES = {"m2": 1.0, "m²": 1.0, "m^2": 1.0, "sqm": 1.0, "square meters": 1.0, "square metres": 1.0}  # fmt: skip

Percent = Annotated[float, Meta(ge=0, le=100)]
Point2 = tuple[Finite, Finite]

_FLAT_OBJECT = re.compile(r"\{[^{}]*\}")


class BelievedObject(Struct, frozen=True, omit_defaults=True):
    """One object of a believed map.

    position: of its centre on the floor plan, metres, world frame. sure: how sure the model is of it. length:
    metres of its longest side.
    """

    category: str
    position: Point2
    sure: Percent | None = None
    length: NotNegative | None = None


class Belief(Struct, frozen=True, omit_defaults=True):
    """The beliefs in a model's reply; None stands for a part that was not asked for or could not be read.

    counts: objects by category. position: metres, world frame. yaw: degrees. unseen: what it has not seen yet.
    area: square metres of floor. notes: what of the reply was left out, and why.
    """

    objects: tuple[BelievedObject, ...] | None = None
    counts: dict[str, Count] | None = None
    position: Point2 | None = None
    yaw: Finite | None = None
    unseen: tuple[str, ...] | None = None
    area: NotNegative | None = None
    notes: tuple[str, ...] = ()

    def of(self, category: str) -> list[BelievedObject]:
        """Return the objects of a category on the map, in the singular or the plural."""
        words = _words_for(category)
        return [thing for thing in self.objects or () if thing.category in words]

    def count(self, category: str) -> int:
        """Return the number of objects of a category in this belief; 0 where it does not mention them."""
        return sum((self.counts or {}).get(word, 0) for word in _words_for(category))


def read_belief(text: str, keys: Set[str]) -> Belief | Malformed:
    """Read the beliefs in a reply; it never raises, and takes time linear in the text.

    keys: what was asked for, as in the schema. Of a list that is cut off, its whole objects are read.
    """
    reply = without_thinking(text)
    try:
        parsed = last_object(reply, general())
        names = set() if isinstance(parsed, Malformed) else {key.strip().lower() for key in parsed}
        if isinstance(parsed, Malformed) or "category" in names or not keys & names:
            return _rescued(reply, keys, parsed)
        return _understood(parsed, keys)
    except RecursionError:
        return Malformed(general()("reply.nested"))


def category_name(word: object) -> str | None:
    """Return a category as annotations write it: lower case, blanks between words; None where it is no name."""
    if not isinstance(word, str):
        return None
    name = " ".join(encodable(word).replace("_", " ").replace("-", " ").lower().split())
    return name if 0 < len(name) <= MAX_NAME_CHARACTERS else None


def _words_for(category: str) -> tuple[str, ...]:
    name = category_name(category) or ""
    return name, f"{name}s", f"{name}es"


def _rescued(
    text: str, keys: Set[str], parsed: Mapping[str, Any] | Malformed
) -> Belief | Malformed:
    """Return the objects that stand alone in a text, as in a list that is cut off or has no name."""
    fault = (
        parsed.reason
        if isinstance(parsed, Malformed)
        else f"it has none of {', '.join(sorted(keys))}"
    )
    if "objects" not in keys:
        return Malformed(fault)
    things = []
    for match in _FLAT_OBJECT.finditer(text):
        try:
            things.append(parse_json(match[0], strict=False))
        except ValueError:
            continue
        if len(things) > MAX_OBJECTS:
            break
    belief = _understood({"objects": [t for t in things if "category" in t]}, {"objects"})
    if isinstance(belief, Malformed) or not belief.objects:
        return Malformed(fault)
    return Belief(belief.objects, notes=(f"{fault}: its whole objects are read", *belief.notes))


def _understood(fields: Mapping[str, Any], keys: Set[str]) -> Belief | Malformed:
    known = {str(name).strip().lower(): value for name, value in fields.items()}
    notes: list[str] = []
    values: dict[str, Any] = {}
    for key, (attribute, understand) in _FIELDS.items():
        if key not in keys:
            continue
        value = understand(known[key], notes) if known.get(key) is not None else None
        if value is None:
            notes.append(
                f"{key} {'cannot be read' if known.get(key) is not None else 'is missing'}"
            )
        values[attribute] = value
    if values and all(value is None for value in values.values()):
        return Malformed("; ".join(notes[:MAX_NOTES]))
    things: tuple[BelievedObject, ...] | None = values.get("objects")
    for category, count in (values.get("counts") or {}).items() if things is not None else ():
        listed = sum(thing.category == category for thing in things or ())
        if listed != count:
            notes.append(f"counts says {count} {category}, and the list has {listed}")
    return Belief(**values, notes=tuple(notes[:MAX_NOTES]))


def _objects(value: object, notes: list[str]) -> tuple[BelievedObject, ...] | None:
    if not isinstance(value, list | Mapping):
        return None
    things, left_out = [], 0
    for number, entry in enumerate(_entries(value)):
        if number >= MAX_OBJECTS:
            notes.append(f"objects beyond {MAX_OBJECTS} are left out")
            break
        thing = _object(entry)
        left_out += thing is None
        if thing is not None:
            things.append(thing)
    if left_out:
        notes.append(f"{left_out} objects have no category or no position")
    return tuple(things) if things or not left_out else None


def _entries(value: list[Any] | Mapping[str, Any]) -> Iterator[object]:
    """Give the objects of a list, or of a grid as VSI-Bench's authors ask for it: {category: [[x, y], …]}."""
    if isinstance(value, list):
        yield from value
        return
    for category, some in value.items():
        single = isinstance(some, Mapping) or (
            isinstance(some, list) and bool(some) and not isinstance(some[0], list | Mapping)
        )
        for place in [some] if single or not isinstance(some, list) else some:
            yield {
                "category": category,
                **(place if isinstance(place, dict) else {"position": place}),
            }


def _object(entry: object) -> BelievedObject | None:
    if not isinstance(entry, Mapping):
        return None
    known = {str(name).strip().lower(): value for name, value in entry.items()}
    category = category_name(known.get("category"))
    position = _point(known.get("position", known), [])
    if category is None or position is None:
        return None
    sure = quantity(known.get("sure"), {"%": 1.0, "percent": 1.0})
    length = quantity(known.get("length_meters"), UNITS)
    return BelievedObject(
        category,
        position,
        sure if sure is not None and 0 <= sure <= 100 else None,
        length if length is not None and 0 < length <= MAX_METRES else None,
    )


def _point(value: object, notes: list[str]) -> Point2 | None:
    """Return [x, y], [x, y, z] or {"x": …, "y": …} as a point of the floor plan."""
    if isinstance(value, Mapping):
        value = [value.get("x"), value.get("y")]
    if not isinstance(value, list) or not 2 <= len(value) <= 3:
        return None
    x, y = (quantity(item, UNITS) for item in value[:2])
    if x is None or y is None or max(abs(x), abs(y)) > MAX_METRES:
        return None
    return x, y


def _counts(value: object, notes: list[str]) -> dict[str, int] | None:
    """Return a list of {"category": …, "count": …}, or {category: count}, as counts by category."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        entries = [entry for entry in value if isinstance(entry, Mapping)]
        pairs = [(entry.get("category"), entry.get("count")) for entry in entries]
    else:
        return None
    counts: dict[str, int] = {}
    for word, number in pairs[:MAX_OBJECTS]:
        category, count = category_name(word), quantity(number, {})
        if category is None or count is None or not 0 <= count <= MAX_COUNT or count % 1:
            notes.append(f"the count of {str(word)[:MAX_NAME_CHARACTERS]!r} cannot be read")
        else:
            counts[category] = int(count)
    return counts if counts or not value else None


def _unseen(value: object, notes: list[str]) -> tuple[str, ...] | None:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list):
        return None
    names = [name for word in words[:MAX_OBJECTS] if (name := category_name(word)) is not None]
    return tuple(dict.fromkeys(names))


def _area(value: object, notes: list[str]) -> float | None:
    area = quantity(value, SQUARE_METRES)
    return area if area is not None and 0 < area <= MAX_METRES else None


def _yaw(value: object, notes: list[str]) -> float | None:
    return quantity(value, ANGLES)


_FIELDS = {
    "objects": ("objects", _objects),
    "counts": ("counts", _counts),
    "position": ("position", _point),
    "yaw_degrees": ("yaw", _yaw),
    "unseen": ("unseen", _unseen),
    "floor_square_meters": ("area", _area),
}
"""By the key of a reply: where a belief keeps it, and how its value is understood."""
