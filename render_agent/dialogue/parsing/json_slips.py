"""Repairs JSON objects with slips in their syntax, such as a trailing comma, by the library json-repair.

The library guesses where a text is ambiguous. A repair is therefore accepted only if it preserves all words and numbers
of the text in their order, so that only punctuation changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from json_repair import repair_json

MAX_REPAIRED_CHARACTERS = 10_000  # per reply; the library takes quadratic time on hostile texts

_CLOSING_QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": '”“"',
    "”": '”"',
    "‘": "’‘'",
    "＂": "＂",
    "「": "」",
    "『": "』",
    "«": "»",
}
_STRUCTURE = {
    **{
        0xFF01 + offset: chr(0x21 + offset) for offset in range(0x5E)
    },  # full-width forms of ASCII characters
    **dict.fromkeys(map(ord, "、；;"), ","),
    **dict.fromkeys((0xFEFF, 0x200B, 0x2060), " "),
}
_AFTER_STRING = frozenset(",:}])/#\"'“”‘＂「，：｝］）；、")
_BEFORE_VALUE = frozenset("{[(,:")
_BEFORE_LINE = _BEFORE_VALUE | {""}
_STARTS_PROSE = re.compile(r"\s*[^\s,:}\])\"'“‘＂「，：｝］/#`<]")
_PARTIAL_LITERAL = re.compile(
    r"(?<![\w\"])(?:t|tr|tru|f|fa|fal|fals|n|nu|nul|No|Non|T|Tr|Tru|F|Fa|Fal|Fals)\Z"
)
_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|[nrtbf\"'\\/])")
_TOKEN = re.compile(
    r"(?:(?<![\w)\]])-)?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[^\W\d]+"
)


@dataclass(frozen=True, slots=True)
class Extent:
    """A JSON object in a text, from its opening brace on, without regard to slips.

    Attributes:
        source: The object with comments removed and with ASCII brackets, separators and quotes.
        end: Index after its last character.
        is_closed: True if it has its closing brace.
        is_whole: False if it ends inside a string, a literal or a comment.
    """

    source: str
    end: int
    is_closed: bool
    is_whole: bool


def find_extent(text: str, start: int, max_characters: int = MAX_REPAIRED_CHARACTERS) -> Extent:
    """Return the extent of the object that starts at an index.

    An object without closing brace extends to a line that cannot be part of it, a closing tag, a fence, an opening brace
    after a value, or the maximum number of characters.
    """
    source: list[str] = []
    depth, position, previous, quote = 0, start, "", ""
    prose: tuple[int, int] | None = None  # where a line begins that cannot be part of the object
    limit = min(len(text), start + max_characters)
    while position < limit:
        character = text[position]
        if quote:
            if character == "\\":
                source.append(text[position : position + 2])
                position += 2
                continue
            if character in _CLOSING_QUOTES[quote] and _ends_string(text, position + 1):
                character, quote, previous = "'" if quote == "'" else '"', "", '"'
            source.append(character)
            position += 1
            continue
        character = character.translate(_STRUCTURE)
        if text[position] in _CLOSING_QUOTES and (
            character == '"' or previous in _BEFORE_VALUE or previous == '"'
        ):
            quote = text[position]
            character = "'" if quote == "'" else '"'
        elif comment := _COMMENT.match(text, position, limit):
            source.append(" ")
            position = comment.end()
            continue
        elif (character == "{" and previous and previous not in _BEFORE_VALUE) or text.startswith(
            ("</", "```"), position
        ):
            break
        if (
            character == "\n"
            and not prose
            and previous not in _BEFORE_LINE
            and _STARTS_PROSE.match(text, position)
        ):
            prose = len(source), position
        depth += (character in "{[(") - (character in "}])")
        source.append(" " if character.isspace() else character)
        position += 1
        if not character.isspace():
            previous = character
        if depth <= 0:
            return Extent("".join(source), position, True, True)
    if prose:
        source, quote, position = source[: prose[0]], "", prose[1]
    whole = "".join(source).rstrip()
    is_whole = (
        not quote and position < start + max_characters and not _PARTIAL_LITERAL.search(whole)
    )
    return Extent(whole, position, False, is_whole)


def repair(extent: Extent, names: Collection[str]) -> dict[str, Any] | None:
    """Return the repaired object; None if it has none of these names or if its meaning is in doubt."""
    words = extent.source.lower()
    if not any(name in words for name in names):
        return None
    try:
        value = repair_json(extent.source, return_objects=True, skip_json_loads=True, strict=True)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return None
    if not isinstance(value, dict) or _tokens(extent.source) != _tokens(
        json.dumps(value, ensure_ascii=False)
    ):
        return None
    return value


def _ends_string(text: str, position: int) -> bool:
    """Return True if a quote before this index ends a string, rather than being part of it."""
    while position < len(text) and text[position].isspace():
        position += 1
    return (
        position >= len(text) or text[position] in _AFTER_STRING or text.startswith("```", position)
    )


def _tokens(source: str) -> list[str]:
    """Return the words and numbers of a text, without regard to punctuation and spelling of literals."""
    text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", source)
    return [_canonical(token) for token in _TOKEN.findall(text)]


def _canonical(token: str) -> str:
    if token[-1].isdigit() or token[-1] == ".":
        return repr(float(token))
    word = token.lower()
    return "null" if word == "none" else word
