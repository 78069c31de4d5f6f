"""Documents from outside, JSON and YAML: read within bounds, and whatever is wrong with one is a ValueError.

What a document must be is declared as a type: a dataclass, a `msgspec.Struct`, a TypedDict, with the
bounds of its values as annotations. That one declaration reads it, writes it, and says what is wrong.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from functools import cache
from pathlib import Path, PurePath
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import msgspec
from msgspec import Meta

from render_agent.text.reasons import reason_of, short_repr, shortened

__all__ = ("Either",)  # which mypy takes for another module's

if TYPE_CHECKING:
    from typing import Union as Either

    Each = dict
else:

    class _Ours(type):
        """What msgspec asks us to read, whatever that is then."""

        def __instancecheck__(cls, value):
            return True

        def __getitem__(cls, parameters):
            return GenericAlias(cls, parameters)

    # msgspec tells objects apart by a field that names their type, which no file of ours has.
    class Either(metaclass=_Ours):
        """One of several objects: the first whose first field is there, else the last."""

    # msgspec does not say under which name of a mapping something is wrong.
    class Each(metaclass=_Ours):
        """A mapping of names to values, such as `dict`; a fault in it is told by the name."""


Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
NotNegative = Annotated[float, Meta(ge=0, le=1e15)]
Share = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=10**15)]

MAX_BYTES = 1 << 30
"""Of a file that is read whole."""

CHUNK_BYTES = 1 << 20
"""Bytes that are read at a time of what tells no size."""

LONGEST_PATH, LONGEST_NAME = 4096, 255
"""Bytes of a path and of a name in it, at the most, on the systems in use."""

MAX_LINE_BYTES = 64 << 20
"""Bytes of a line in a file of lines."""

MAX_ENTRIES = 100_000
"""Of a YAML document, with what its aliases stand for counted wherever they stand."""


def parse_json(text: str | bytes, **how: Any) -> Any:
    """Parse a JSON text; how: as `json.loads` takes it. ValueError where it is none.

    Brackets within brackets beyond what the interpreter can follow are one of those.
    """
    try:
        return json.loads(text, **how)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


class MisfitError(ValueError):
    """A document does not fit its declared type: the field, and what is wrong there."""

    def __init__(self, at: str, reason: str) -> None:
        super().__init__(reason_of(f"{at or 'it'}{reason}".removeprefix("it: ")))
        self.at = at
        self.said = reason

    def within(self, name: str) -> MisfitError:
        """Return the same of a document in which this one stands under a name."""
        return MisfitError(f"{name}.{self.at}" if self.at and name else name or self.at, self.said)


def decode(text: bytes, form: Any) -> Any:
    """Parse a JSON text into its declared type.

    MisfitError where it is something else, any other ValueError where it is no JSON.
    """
    try:
        return _decoder(form).decode(text)
    except msgspec.ValidationError as error:
        raise _misfit(error) from None
    # Halves of characters, which an escape may stand for, and what only Python's parser explains.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return convert(parse_json(text), form)


def convert(data: Any, form: Any) -> Any:
    """Return plain values, such as JSON and YAML hold, as the type that is declared for them. MisfitError."""
    try:
        return msgspec.convert(data, form, dec_hook=_from_plain)
    except msgspec.ValidationError as error:
        raise _misfit(error) from None
    except RecursionError:
        raise MisfitError("", " is nested too deeply") from None


def plain(data: Any) -> Any:
    """Return an object of a declared type as plain values; the inverse of `convert`."""
    return msgspec.to_builtins(data, enc_hook=_to_plain)


def encode(data: Any) -> bytes:
    """Return data as one line of JSON; lone surrogates become the escapes that JSON has for them."""
    text = json.dumps(data, ensure_ascii=False, default=plain) + "\n"
    return text.encode("utf-8", "backslashreplace")


@cache
def _decoder(form: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(form, dec_hook=_from_plain)


def _from_plain(form: Any, data: Any) -> Any:
    """Read what msgspec has no type for."""
    if form is Path:
        if not is_path(data):
            raise ValueError(f"{short_repr(data)} is no path of a file")
        return Path(data)
    if not isinstance(data, dict):
        raise MisfitError("", " must be an object")
    others, last = _first_fields(form)  # a log asks for a hundred thousand cameras and actions
    if last is None:
        return _each(data, *get_args(form))
    for name, kind in others:
        if name in data:
            return convert(data, kind)
    return convert(data, last)


@cache
def _first_fields(form: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the first field and the type of each but the last of the objects that `Either` may be, and the last.

    Of `Each` there are none.
    """
    if get_origin(form) is Each:
        return [], None
    *others, last = get_args(form)
    fields = (getattr(kind, "__struct_encode_fields__", kind.__annotations__) for kind in others)
    return [(next(iter(names)), kind) for names, kind in zip(fields, others, strict=True)], last


def _each(data: dict[Any, Any], names: Any, values: Any) -> dict[Any, Any]:
    parsed = {}
    for name, value in data.items():
        try:
            parsed[convert(name, names)] = convert(value, values)
        except MisfitError as error:
            raise error.within(shortened(name, 40)) from None
    return parsed


def _to_plain(data: Any) -> Any:
    """Write what msgspec has no type for."""
    if isinstance(data, PurePath):
        return str(data)
    for kind in (float, int, str):
        if isinstance(data, kind):  # of a type derived from it, such as numpy's floats
            return kind(data)
    raise TypeError(f"{type(data).__name__} has no form in JSON")


_WORDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
"""What msgspec calls a type → what it is called in sentences."""

_SAID = {
    "Expected ": "must be ",
    ", got ": ", not ",
    " matching regex": " matching",
    r"\\A": "",
    r"\\Z": "",
    "Invalid enum value": "cannot be",
    "Number out of range": "is a number out of range",
}
"""How msgspec begins to say what is wrong → how a sentence about a field goes on."""

_FIELD = re.compile(r"Object (?P<fault>missing required|contains unknown) field `(?P<name>.*)`")


def _misfit(error: msgspec.ValidationError) -> MisfitError:
    """Return an error of msgspec's as a sentence such as "views[0].kind must be a text, not a number"."""
    reason, _, place = str(error).partition(" - at `")
    at = place.removeprefix("key` in `").rstrip("`").removeprefix("$").removeprefix(".")
    if isinstance(error.__cause__, MisfitError):
        return error.__cause__.within(at)
    if isinstance(error.__cause__, ValueError):  # what the type itself says
        return MisfitError(at, f": {error.__cause__}")
    if field := _FIELD.fullmatch(reason):
        fault = " is missing" if field["fault"] == "missing required" else " is unknown"
        return MisfitError(field["name"], fault).within(at)
    reason = re.sub(r"`([^`]*)`", _in_words, reason)
    for theirs, ours in _SAID.items():
        reason = reason.replace(theirs, ours, 1)
    return MisfitError(f"a name in {at or 'it'}" if place.startswith("key") else at, f" {reason}")


def _in_words(types: re.Match[str]) -> str:
    return " or ".join(_WORDS.get(name, name) for name in types[1].split(" | "))


def parse_yaml(text: str) -> Any:
    """Parse a YAML text into plain values. ValueError where it is none.

    `problem_mark` of the error says where, if that is known.
    """
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _entries(node, {}) > MAX_ENTRIES:
            raise ValueError(f"it holds more than {MAX_ENTRIES:,} entries")
        return loader.construct_document(node)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except OverflowError as error:
        raise ValueError(str(error)) from error
    except yaml.YAMLError as error:
        wrong = ValueError(str(error))
        wrong.problem_mark = getattr(error, "problem_mark", None)  # type: ignore[attr-defined]
        raise wrong from error


MAX_PIPED_BYTES = 64 << 20
"""Of what is no ordinary file: a device may have no end."""


def read_bounded(path: Path, most: int = MAX_BYTES) -> bytes:
    """Return the content of a file. OSError where it cannot be read, ValueError where it has more bytes."""
    with path.open("rb") as file:
        # Room is made for what is asked for, there or not; a pipe tells no size.
        status = os.fstat(file.fileno())
        most = most if stat.S_ISREG(status.st_mode) else min(most, MAX_PIPED_BYTES)
        content = file.read(min(status.st_size, most) + 1)
        while len(content) <= most and (more := file.read(CHUNK_BYTES)):
            content += more
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return content


def is_path(file: object) -> bool:
    """Whether a text may be the path of a file, there or not: no system refuses to look for it."""
    if not isinstance(file, str) or "\0" in file or not Path(file).name:
        return False
    whole = file.encode("utf-8", "replace")
    return len(whole) < LONGEST_PATH and max(map(len, whole.split(b"/"))) <= LONGEST_NAME


def line_of(error: Exception) -> str:
    """Return the line of an error in a YAML text as " (line N)"; empty where it is not known."""
    mark = getattr(error, "problem_mark", None)
    return "" if mark is None else f" (line {mark.line + 1})"


def _entries(node: Any, counted: dict[int, int]) -> int:
    """Count the values that a node of YAML stands for; ValueError where it holds itself."""
    known = counted.get(id(node))
    if known is not None:
        if not known:
            raise ValueError("an entry holds itself")
        return known
    counted[id(node)] = 0
    inner = node.value if isinstance(node.value, list) else []
    parts = [part for entry in inner for part in (entry if isinstance(entry, tuple) else (entry,))]
    counted[id(node)] = 1 + sum(_entries(part, counted) for part in parts)
    return counted[id(node)]
