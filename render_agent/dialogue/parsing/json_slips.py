"""Repairs JSON objects with syntax slips, such as a trailing comma, using the json-repair library.

The library guesses if a text is ambiguous. It therefore sees strings only as opaque numbers, and a repair is accepted
only if it preserves all strings, words and numbers in order, that is, if it changes nothing but punctuation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from json_repair import repair_json

from render_agent.dialogue.parsing.pairs import merge_pairs

MAX_REPAIR_CHARACTERS = 100_000  # per reply
# Without string contents. The library takes quadratic time on hostile text.
MAX_SOURCE_CHARACTERS = 2_000

_CLOSING_QUOTES = {
    '"': '"', "'": "'", "`": "`", "“": '”“"', "”": '”"', "‘": "’‘'", "＂": "＂", "「": "」", "『": "』", "«": "»",
}  # fmt: skip
_STRUCTURE = {
    **{0xFF01 + offset: chr(0x21 + offset) for offset in range(0x5E)},  # full-width ASCII
    **dict.fromkeys(map(ord, "、；;"), ","),
    **dict.fromkeys((0xFEFF, 0x200B, 0x2060), " "),
    **dict.fromkeys((0x2212, 0x2010, 0x2011, 0x2013), "-"),  # minus sign, hyphens and en dash
}
_AFTER_STRING = frozenset(",:}])/#\"'“”‘＂「，：｝］）；;、`")
_BEFORE_VALUE = frozenset("{[(,:")
_STARTS_PROSE = re.compile(r"\s*[^\s,:}\])\"'“‘＂「，：｝］/#`<]")
_PARTIAL_LITERAL = re.compile(r"(?<!\w)(?:tr?u?|fa?l?s?|nu?l?|no?n?)\Z", re.IGNORECASE)

_OPEN, _CLOSE = "\ue000", "\ue001"  # delimiters of a string's index in a source
_STRING = re.compile(f"{_OPEN}([0-9]+){_CLOSE}")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"} | {
    sign: sign for sign in "\"'\\/"
}
_TOKEN = re.compile(
    rf"{_OPEN}[0-9]+|(?:(?<![\w)\]])-)?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[^\W\d]+"
)


@dataclass(frozen=True, slots=True)
class Extent:
    """The extent of a JSON object in a text, with or without syntax slips."""

    source: str
    """The object without comments, with string contents replaced by indices, and with ASCII brackets,
    separators and quotes.
    """
    strings: tuple[str, ...]
    end: int
    is_closed: bool  # True if it has its closing brace
    is_whole: bool
    """False if it ends inside a string, a literal or a comment, or has too many characters."""


def find_extent(text: str, start: int, max_characters: int = MAX_REPAIR_CHARACTERS) -> Extent:
    """Return the extent of the object that starts at an index.

    An object without a closing brace ends at a line that cannot be part of it, a closing tag, a fence, an opening
    brace after a value, or after `max_characters`.
    """
    source: list[str] = []
    strings: list[str] = []
    depth, position, previous = 0, start, ""
    # Start and end of a line that cannot be part of the object.
    prose: tuple[int, int] | None = None
    limit = min(len(text), start + max_characters)
    is_whole = limit == len(text)
    while position < limit:
        raw = text[position]
        character = raw.translate(_STRUCTURE)
        if raw in _CLOSING_QUOTES and (
            character == '"' or previous in _BEFORE_VALUE or previous == '"'
        ):
            end = _end_of_string(text, position, limit)
            if end is None:
                is_whole = False
                break
            source.append(f'"{_OPEN}{len(strings)}{_CLOSE}"')
            strings.append(_unescape(text[position + 1 : end]))
            position, previous = end + 1, '"'
            continue
        if text.startswith(("//", "#", "/*"), position):
            closing = "*/" if text.startswith("/*", position) else "\n"
            index = text.find(closing, position, limit)
            if index < 0 and closing == "*/":
                is_whole = False
                break
            source.append(" ")
            position = limit if index < 0 else index + len(closing) * (closing == "*/")
            continue
        if (character == "{" and previous and previous not in _BEFORE_VALUE) or text.startswith(
            ("</", "```"), position
        ):
            is_whole = True
            break
        begins_line = character == "\n" and not text[position - 1].isspace()
        if (
            begins_line
            and prose is None
            and previous not in _BEFORE_VALUE
            and _STARTS_PROSE.match(text, position)
        ):
            prose = len(source), position
        depth += (character in "{[(") - (character in "}])")
        source.append(" " if character.isspace() else character)
        position += 1
        if not character.isspace():
            previous = character
        if depth <= 0:
            return Extent("".join(source), tuple(strings), position, is_closed=True, is_whole=True)
    if prose:
        source, position, is_whole = source[: prose[0]], prose[1], True
    whole = "".join(source).rstrip()
    is_whole = is_whole and not _PARTIAL_LITERAL.search(whole)
    return Extent(whole, tuple(strings), position, is_closed=False, is_whole=is_whole)


def repair(extent: Extent, names: Collection[str]) -> dict[str, Any] | None:
    """Return the repaired object; None if it has none of these names or is ambiguous."""
    source = extent.source
    words = {text.strip().lower() for text in (*extent.strings, *re.findall(r"\w+", source))}
    if len(source) > MAX_SOURCE_CHARACTERS or not words & set(names):
        return None
    try:
        value = repair_json(source, return_objects=True, skip_json_loads=True, strict=True)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return None
    if not isinstance(value, dict) or _tokens(source) != _tokens(
        json.dumps(value, ensure_ascii=False)
    ):
        return None
    result: dict[str, Any] = _with_strings(value, extent.strings)
    return result


def _end_of_string(text: str, start: int, limit: int) -> int | None:
    """Return the index of the quote that closes the string starting at `start`."""
    closing = _CLOSING_QUOTES[text[start]]
    position = start + 1
    while position < limit:
        if text[position] == "\\":
            position += 2
        elif text[position] in closing and _follows_string(text, position + 1):
            return position
        else:
            position += 1
    return None


def _follows_string(text: str, position: int) -> bool:
    """Return True if a quote before this position would close a string rather than belong to it."""
    while position < len(text) and text[position].isspace():
        position += 1
    return position >= len(text) or text[position] in _AFTER_STRING


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda e: chr(int(e[1], 16)) if e[1] else _ESCAPED.get(e[2], e[0]), text)
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _with_strings(value: Any, strings: tuple[str, ...]) -> Any:
    """Put the contents of strings back into a value."""
    if isinstance(value, str):
        return _STRING.sub(lambda index: strings[int(index[1])], value)
    if isinstance(value, dict):
        pairs = value.items()
        return merge_pairs(
            (_with_strings(name, strings), _with_strings(item, strings)) for name, item in pairs
        )
    return [_with_strings(item, strings) for item in value] if isinstance(value, list) else value


def _tokens(source: str) -> list[str]:
    """Return the strings, words and numbers of a source, ignoring punctuation and the spelling of literals."""
    return [_canonical(token) for token in _TOKEN.findall(source.replace("\\", " "))]


def _canonical(token: str) -> str:
    if token[0] != _OPEN and (token[-1].isdigit() or token[-1] == "."):
        return repr(float(token))
    word = token.lower()
    return "null" if word == "none" else word
