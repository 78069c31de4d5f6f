"""Bounded, typed parsing of untrusted JSON and YAML. Every failure is a ValueError.

A document's type (a dataclass, a `msgspec.Struct` or a TypedDict) is annotated with the bounds of its values. It is
used to parse, validate and serialise the document.
"""

from __future__ import annotations

import json
import os
import stat
import sys
from collections import Counter
from functools import cache
from pathlib import Path, PurePath
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, get_args

import msgspec
from msgspec import Meta

from render_agent.util.reasons import short_repr

__all__ = ("Either",)  # otherwise mypy treats it as a private re-export of typing.Union

if TYPE_CHECKING:
    from typing import Union as Either
else:

    class _CustomType(type):
        """Metaclass for types that msgspec delegates to `dec_hook`."""

        def __instancecheck__(cls, value):
            return True

        def __getitem__(cls, parameters):
            return GenericAlias(cls, parameters)

    # msgspec's tagged unions need a type field, which the files in a run folder do not have.
    class Either(metaclass=_CustomType):
        """Union of object types: the first type whose first field is present in the data, otherwise the last."""


Number = Annotated[float, Meta(ge=-1e15, le=1e15)]
Finite = Annotated[float, Meta(ge=-sys.float_info.max, le=sys.float_info.max)]
NotNegative = Annotated[float, Meta(ge=0, le=1e15)]
Percent = Annotated[float, Meta(ge=0, le=100)]
UnitInterval = Annotated[float, Meta(ge=0, le=1)]
Count = Annotated[int, Meta(ge=0, le=10**15)]

MAX_BYTES = 1 << 30  # largest regular file that is read into memory
MAX_PIPED_BYTES = 64 << 20  # limit for pipes and devices, which may be endless
CHUNK_BYTES = 1 << 20  # bytes per read if the size is unknown
LONGEST_PATH, LONGEST_NAME = 4096, 255  # bytes; PATH_MAX and NAME_MAX on Linux
MAX_LINE_BYTES = 64 << 20  # longest line of a JSON-lines file
MAX_ENTRIES = 100_000  # entries in a YAML document after expanding aliases


class ValidationError(ValueError):
    """A document does not match its declared type; msgspec's message names the field."""


def parse_json(text: str | bytes, **options: Any) -> Any:
    """Parse JSON with the options of `json.loads`. Raises ValueError if it is invalid or nested too deeply."""
    try:
        return json.loads(text, **options)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def decode_json(text: bytes, type_: Any) -> Any:
    """Parse JSON into a declared type. Raises ValidationError if it does not match, ValueError if it is not JSON."""
    try:
        return _decoder(type_).decode(text)
    except msgspec.ValidationError as error:
        raise ValidationError(str(error)) from None
    # Python's parser accepts lone surrogates and reports syntax errors with a position.
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return convert(parse_json(text), type_)


def convert(data: Any, type_: Any) -> Any:
    """Convert plain JSON or YAML values to a declared type. Raises ValidationError if they do not match."""
    try:
        return msgspec.convert(data, type_, dec_hook=_from_plain)
    except msgspec.ValidationError as error:
        raise ValidationError(str(error)) from None
    except RecursionError:
        raise ValidationError("it is nested too deeply") from None


def to_plain(data: Any) -> Any:
    """Convert an instance of a declared type to plain values; the inverse of `convert`."""
    return msgspec.to_builtins(data, enc_hook=_to_plain)


def encode_line(data: Any) -> bytes:
    """Return data as one line of JSON, with lone surrogates escaped."""
    text = json.dumps(data, ensure_ascii=False, default=to_plain) + "\n"
    return text.encode("utf-8", "backslashreplace")


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=_from_plain)


def _from_plain(type_: Any, data: Any) -> Any:
    """Convert plain values to a type that msgspec does not support (its `dec_hook`)."""
    if type_ is Path:
        if not is_path(data):
            raise ValueError(f"{short_repr(data)} is not a valid file path")
        return Path(data)
    if not isinstance(data, dict):
        raise ValueError(f"Expected `object`, got {short_repr(data)}")
    *others, last = get_args(type_)
    kinds = (kind for kind in others if _first_field(kind) in data)
    return convert(data, next(kinds, last))


@cache
def _first_field(kind: Any) -> str:
    return str(next(iter(getattr(kind, "__struct_encode_fields__", kind.__annotations__))))


def _to_plain(data: Any) -> Any:
    """Convert an instance of a type that msgspec does not support to a plain value (its `enc_hook`)."""
    if isinstance(data, PurePath):
        return str(data)
    for kind in (float, int, str):
        if isinstance(data, kind):  # a subclass, such as numpy.float64
            return kind(data)
    raise TypeError(f"{type(data).__name__} cannot be serialised as JSON")


def parse_yaml(text: str) -> Any:
    """Parse YAML into plain values. Raises ValueError if it is invalid or expands beyond MAX_ENTRIES."""
    import yaml

    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _entries(node, {}) > MAX_ENTRIES:
            raise ValueError(f"it has more than {MAX_ENTRIES:,} entries")
        return loader.construct_document(node)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (OverflowError, yaml.YAMLError) as error:
        raise ValueError(str(error)) from error


def read_bounded(path: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a file. Raises OSError if it cannot be read, ValueError if it exceeds `max_bytes`."""
    with path.open("rb") as file:
        # read(n) allocates n bytes even if the file is shorter; the size of a pipe is unknown.
        status = os.fstat(file.fileno())
        max_bytes = max_bytes if stat.S_ISREG(status.st_mode) else min(max_bytes, MAX_PIPED_BYTES)
        content = file.read(min(status.st_size, max_bytes) + 1)
        while len(content) <= max_bytes and (chunk := file.read(CHUNK_BYTES)):
            content += chunk
    if len(content) > max_bytes:
        raise ValueError(f"it has more than {max_bytes:,} bytes")
    return content


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark. Raises errors like `read_bounded`."""
    try:
        return read_bounded(path, max_bytes).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8 text; save it as UTF-8") from None


def is_path(file: object) -> bool:
    """Return True if `file` is a syntactically valid file path, whether or not the file exists."""
    if not isinstance(file, str) or "\0" in file or not Path(file).name:
        return False
    data = file.encode("utf-8", "replace")
    return len(data) < LONGEST_PATH and max(map(len, data.split(b"/"))) <= LONGEST_NAME


def _entries(node: Any, counts: dict[int, int]) -> int:
    """Count the entries of a YAML node with aliases expanded.

    Raises ValueError if it contains itself, or the same name twice.
    """
    count = counts.get(id(node))
    if count is not None:
        if not count:
            raise ValueError("an entry contains itself")
        return count
    counts[id(node)] = 0
    inner = node.value if isinstance(node.value, list) else []
    names = Counter(str(entry[0].value) for entry in inner if isinstance(entry, tuple))
    if names and (most := names.most_common(1)[0])[1] > 1:
        raise ValueError(f"duplicate name {short_repr(most[0])}")
    parts = [part for entry in inner for part in (entry if isinstance(entry, tuple) else (entry,))]
    counts[id(node)] = 1 + sum(_entries(part, counts) for part in parts)
    return counts[id(node)]
