"""Bounded parsing of JSON and YAML from outside into declared types; every fault is a ValueError.

A document is declared as a type (a dataclass, a `msgspec.Struct`, a TypedDict) with the bounds of its values as
annotations. That declaration reads it, writes it, and says what is wrong with it.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from functools import cache
from pathlib import Path, PurePath
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
from msgspec import Meta

from render_agent.util.reasons import short_repr

__all__ = ("Either",)  # which mypy takes for another module's

if TYPE_CHECKING:
    from typing import Union as Either
else:

    class _CustomType(type):
        """msgspec calls our hook for such a type, and takes whatever that returns."""

        def __instancecheck__(cls, value):
            return True

        def __getitem__(cls, parameters):
            return GenericAlias(cls, parameters)

    # msgspec's own unions need a field that names the type, which the files of a run do not have.
    class Either(metaclass=_CustomType):
        """One of several objects: the first whose first field is present, else the last."""


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
"""Maximum bytes of a path and of a name in it, on the systems in use."""

MAX_LINE_BYTES = 64 << 20
"""Bytes of a line in a file of lines."""

MAX_ENTRIES = 100_000
"""Of a YAML document, with what its aliases stand for counted wherever they stand."""


class MisfitError(ValueError):
    """A document does not fit its declared type; the message is msgspec's and names the field."""


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Parse a JSON text with the options of `json.loads`; ValueError if it is not JSON or nested too deeply."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def decode(text: bytes, form: Any) -> Any:
    """Parse a JSON text into its declared type; MisfitError if it does not fit, ValueError if it is not JSON."""
    try:
        return _decoder(form).decode(text)
    except msgspec.ValidationError as error:
        raise MisfitError(str(error)) from None
    # Lone surrogates, which only Python's parser takes, and what only it explains.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return convert(parse_json(text), form)


def convert(data: Any, form: Any) -> Any:
    """Convert plain values, as JSON and YAML hold them, to their declared type. MisfitError if they do not fit."""
    try:
        return msgspec.convert(data, form, dec_hook=_from_plain)
    except msgspec.ValidationError as error:
        raise MisfitError(str(error)) from None
    except RecursionError:
        raise MisfitError("it is nested too deeply") from None


def plain(data: Any) -> Any:
    """Return an object of a declared type as plain values; the inverse of `convert`."""
    return msgspec.to_builtins(data, enc_hook=_to_plain)


def encode(data: Any) -> bytes:
    """Return data as one line of JSON; lone surrogates are escaped."""
    text = json.dumps(data, ensure_ascii=False, default=plain) + "\n"
    return text.encode("utf-8", "backslashreplace")


@cache
def _decoder(form: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(form, dec_hook=_from_plain)


def _from_plain(form: Any, data: Any) -> Any:
    """Read a type that msgspec does not know."""
    if form is Path:
        if not is_path(data):
            raise ValueError(f"{short_repr(data)} is no path of a file")
        return Path(data)
    if not isinstance(data, dict):
        raise ValueError(f"Expected `object`, got {short_repr(data)}")
    *others, last = get_args(form)
    kinds = (kind for kind in others if _first_field(kind) in data)
    return convert(data, next(kinds, last))


@cache
def _first_field(kind: Any) -> str:
    return str(next(iter(getattr(kind, "__struct_encode_fields__", kind.__annotations__))))


def _to_plain(data: Any) -> Any:
    """Write a type that msgspec does not know."""
    if isinstance(data, PurePath):
        return str(data)
    for kind in (float, int, str):
        if isinstance(data, kind):  # of a type derived from it, such as numpy's floats
            return kind(data)
    raise TypeError(f"{type(data).__name__} has no form in JSON")


def parse_yaml(text: str) -> Any:
    """Parse a YAML text into plain values; ValueError if it is not YAML or its aliases expand beyond MAX_ENTRIES."""
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
    except (OverflowError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from error


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
