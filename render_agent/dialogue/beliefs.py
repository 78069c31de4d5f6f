"""A model's beliefs about a scene, parsed from its reply to a probe.

A reply is one JSON object with the keys that the probe requested:

    {"objects": [{"category": "chair", "position": [1.5, -0.3], "sure": 80, "length_meters": 0.9}],
     "counts": [{"category": "chair", "count": 2}], "position": [0.4, 1.2], "yaw_degrees": 90, "unseen": ["lamp"],
     "floor_square_meters": 14}

Invalid parts are dropped and recorded as notes. A reply without any requested key is `Malformed`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from typing import Any

from msgspec import Struct

from render_agent.dialogue.chat import replace_unencodable, without_thinking
from render_agent.dialogue.parsing.replies import find_objects
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.wording import general
from render_agent.util.numbers import ANGLES, UNITS, parse_quantity
from render_agent.util.safe_parse import Count, Finite, NotNegative, Percent, parse_json

MAX_OBJECTS = 200  # per map; further objects are dropped
MAX_NAME_CHARACTERS = 60  # per category
MAX_NOTES = 12  # per reply

# Sanity limits for coordinates, lengths and areas (metres, square metres) and for counts.
MAX_METRES, MAX_COUNT = 1e4, 10_000

# unit of area -> square metres
SQUARE_METRES = {"m2": 1.0, "m²": 1.0, "m^2": 1.0, "sqm": 1.0, "square meters": 1.0, "square metres": 1.0}  # fmt: skip

Point2 = tuple[Finite, Finite]

_FLAT_OBJECT = re.compile(r"\{[^{}]*\}")


class BelievedObject(Struct, frozen=True, omit_defaults=True):
    """One object on the map that a model describes."""

    category: str  # name in the normal form of `category_name`
    position: Point2  # centre on the floor plan: x, y in metres, world frame
    sure: Percent | None = None  # the model's confidence in percent; None if not given
    length: NotNegative | None = None  # longest side in metres; None if not given


class Belief(Struct, frozen=True, omit_defaults=True):
    """The beliefs in a model's reply; a part is None if it was not requested or could not be parsed."""

    objects: tuple[BelievedObject, ...] | None = None
    counts: dict[str, Count] | None = None
    position: Point2 | None = None  # the camera's x, y in metres, world frame
    yaw: Finite | None = None  # the camera's yaw in degrees
    unseen: tuple[str, ...] | None = None  # categories that the model has not seen yet
    area: NotNegative | None = None  # floor area in square metres
    notes: tuple[str, ...] = ()  # parts of the reply that were dropped, with the reason

    def of(self, category: str) -> list[BelievedObject]:
        """Return the objects of a category on the map; singular and plural names match."""
        names = _name_variants(category)
        return [entry for entry in self.objects or () if entry.category in names]

    def count(self, category: str) -> int:
        """Return the believed number of objects of a category; 0 if the belief does not mention it."""
        return sum((self.counts or {}).get(name, 0) for name in _name_variants(category))


def read_belief(text: str, keys: Set[str]) -> Belief | Malformed:
    """Parse the beliefs in a reply. Never raises; takes time linear in the length of the text.

    If the list of objects is cut off, its complete objects are still used.
    """
    reply = without_thinking(text)
    try:
        objects = find_objects(reply, keys, general())
        if isinstance(objects, Malformed):
            return _salvage_objects(reply, keys, objects)
        fields = next(
            (entry.fields for entry in reversed(objects) if _has_keys(entry.fields, keys)), None
        )
        if fields is None:
            return _salvage_objects(reply, keys, objects[-1].fields)
        return _parse_fields(fields, keys)
    except RecursionError:
        return Malformed(general()("reply.nested"))


def _has_keys(fields: Mapping[str, Any], keys: Set[str]) -> bool:
    """Return True if an object has requested keys and is not itself an entry of a list of objects."""
    names = {key.strip().lower() for key in fields}
    return "category" not in names and bool(keys & names)


def category_name(word: object) -> str | None:
    """Normalise a category to the spelling of annotations (lower case, single spaces); None if it is not a name."""
    if not isinstance(word, str):
        return None
    name = " ".join(replace_unencodable(word).replace("_", " ").replace("-", " ").lower().split())
    return name if 0 < len(name) <= MAX_NAME_CHARACTERS else None


def _name_variants(category: str) -> tuple[str, ...]:
    name = category_name(category) or ""
    return name, f"{name}s", f"{name}es"


def _salvage_objects(
    text: str, keys: Set[str], fields: Mapping[str, Any] | Malformed
) -> Belief | Malformed:
    """Collect the complete objects of a list that is cut off or has no key."""
    fault = (
        fields.reason
        if isinstance(fields, Malformed)
        else f"it has none of {', '.join(sorted(keys))}"
    )
    if "objects" not in keys:
        return Malformed(fault)
    entries = []
    for match in _FLAT_OBJECT.finditer(text):
        try:
            entries.append(parse_json(match[0], strict=False))
        except ValueError:
            continue
        if len(entries) > MAX_OBJECTS:
            break
    belief = _parse_fields({"objects": [e for e in entries if "category" in e]}, {"objects"})
    if isinstance(belief, Malformed) or not belief.objects:
        return Malformed(fault)
    return Belief(belief.objects, notes=(f"{fault}: its whole objects are read", *belief.notes))


def _parse_fields(fields: Mapping[str, Any], keys: Set[str]) -> Belief | Malformed:
    by_key = {str(name).strip().lower(): value for name, value in fields.items()}
    notes: list[str] = []
    values: dict[str, Any] = {}
    for key, (attribute, parse) in _FIELDS.items():
        if key not in keys:
            continue
        is_present = by_key.get(key) is not None
        values[attribute] = parse(by_key[key], notes) if is_present else None
        if values[attribute] is None:
            notes.append(f"{key} {'cannot be read' if is_present else 'is missing'}")
    if values and all(value is None for value in values.values()):
        return Malformed("; ".join(notes[:MAX_NOTES]))
    objects: tuple[BelievedObject, ...] | None = values.get("objects")
    counts: dict[str, int] = values.get("counts") or {}
    for category, count in counts.items() if objects is not None else ():
        num_listed = sum(entry.category == category for entry in objects or ())
        if num_listed != count:
            notes.append(f"counts says {count} {category}, and the list has {num_listed}")
    return Belief(**values, notes=tuple(notes[:MAX_NOTES]))


def _objects(value: object, notes: list[str]) -> tuple[BelievedObject, ...] | None:
    if not isinstance(value, list | Mapping):
        return None
    objects, num_invalid = [], 0
    for index, entry in enumerate(_entries(value)):
        if index >= MAX_OBJECTS:
            notes.append(f"objects beyond {MAX_OBJECTS} are left out")
            break
        if (believed_object := _object(entry)) is None:
            num_invalid += 1
        else:
            objects.append(believed_object)
    if num_invalid:
        notes.append(f"{num_invalid} objects have no category or no position")
    return tuple(objects) if objects or not num_invalid else None


def _entries(value: list[Any] | Mapping[str, Any]) -> Iterator[object]:
    """Yield the objects of a list, or of a grid as in VSI-Bench's own prompt: {category: [[x, y], …]}."""
    if isinstance(value, list):
        yield from value
        return
    for category, positions in value.items():
        is_single = isinstance(positions, Mapping) or (
            isinstance(positions, list)
            and bool(positions)
            and not isinstance(positions[0], list | Mapping)
        )
        for position in [positions] if is_single or not isinstance(positions, list) else positions:
            yield {
                "category": category,
                **(position if isinstance(position, dict) else {"position": position}),
            }


def _object(entry: object) -> BelievedObject | None:
    if not isinstance(entry, Mapping):
        return None
    fields = {str(name).strip().lower(): value for name, value in entry.items()}
    category = category_name(fields.get("category"))
    position = _point(fields.get("position", fields), [])
    if category is None or position is None:
        return None
    sure = parse_quantity(fields.get("sure"), {"%": 1.0, "percent": 1.0})
    length = parse_quantity(fields.get("length_meters"), UNITS)
    return BelievedObject(
        category,
        position,
        sure if sure is not None and 0 <= sure <= 100 else None,
        length if length is not None and 0 < length <= MAX_METRES else None,
    )


def _point(value: object, notes: list[str]) -> Point2 | None:
    """Parse [x, y], [x, y, z] or {"x": …, "y": …} as a point on the floor plan."""
    if isinstance(value, Mapping):
        value = [value.get("x"), value.get("y")]
    if not isinstance(value, list) or not 2 <= len(value) <= 3:
        return None
    x, y = (parse_quantity(item, UNITS) for item in value[:2])
    if x is None or y is None or max(abs(x), abs(y)) > MAX_METRES:
        return None
    return x, y


def _counts(value: object, notes: list[str]) -> dict[str, int] | None:
    """Parse a list of {"category": …, "count": …}, or {category: count}, into counts by category."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    elif isinstance(value, list):
        entries = [entry for entry in value if isinstance(entry, Mapping)]
        pairs = [(entry.get("category"), entry.get("count")) for entry in entries]
    else:
        return None
    counts: dict[str, int] = {}
    for word, number in pairs[:MAX_OBJECTS]:
        category, count = category_name(word), parse_quantity(number, {})
        if category is None or count is None or not 0 <= count <= MAX_COUNT or count % 1:
            notes.append(f"the count of {str(word)[:MAX_NAME_CHARACTERS]!r} cannot be read")
        else:
            counts[category] = int(count)
    return counts if counts or not value else None


def _unseen_categories(value: object, notes: list[str]) -> tuple[str, ...] | None:
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list):
        return None
    names = [name for word in words[:MAX_OBJECTS] if (name := category_name(word)) is not None]
    return tuple(dict.fromkeys(names))


def _area(value: object, notes: list[str]) -> float | None:
    area = parse_quantity(value, SQUARE_METRES)
    return area if area is not None and 0 < area <= MAX_METRES else None


def _yaw(value: object, notes: list[str]) -> float | None:
    return parse_quantity(value, ANGLES)


# Key of a reply -> attribute of `Belief`, parser of its value.
_FIELDS = {
    "objects": ("objects", _objects),
    "counts": ("counts", _counts),
    "position": ("position", _point),
    "yaw_degrees": ("yaw", _yaw),
    "unseen": ("unseen", _unseen_categories),
    "floor_square_meters": ("area", _area),
}
