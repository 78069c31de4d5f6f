"""Reads tool calls that models write as text although JSON was requested.

Chat templates teach models several formats: JSON with a name and arguments (Hermes, Mistral, Llama), and XML with one
element per parameter (Qwen3-Coder, GLM, Claude).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from render_agent.dialogue.parsing.json_objects import JsonObject
from render_agent.dialogue.parsing.pairs import merge_pairs
from render_agent.util.safe_parse import parse_json

MAX_DEPTH = 4  # levels of wrapping, such as {"tool_calls": [{"function": {"arguments": {…}}}]}
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "action_input")
MAX_CALLS = 100  # per reply; further calls are ignored, because only the first is carried out

_CALL = re.compile(r"<(function|invoke)\b[^<>]*>|<(tool_call)>\s*+[\w.-]*+\s*+(?=<arg_key>)")
_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name\s*=\s*)[\"']?([\w.-]+)[\"']?\s*>(.*)"
    r"|<arg_key>([^<>]*)</arg_key>\s*<arg_value>(.*)",
    re.DOTALL,
)
_PARAMETER_END = re.compile(r"</parameter>|</arg_value>")


def xml_calls(text: str, *, is_complete: bool) -> list[tuple[JsonObject, int]]:
    """Return the XML calls in a text, each with the index after it."""
    calls: list[tuple[JsonObject, int]] = []
    position = 0
    while len(calls) < MAX_CALLS and (call := _CALL.search(text, position)):
        end = text.find(f"</{call[1] or call[2]}>", call.end())
        if end < 0 and not is_complete:
            break
        position = len(text) if end < 0 else end
        body = text[call.end() : position]
        if body.lstrip().startswith("{"):  # Llama's syntax, with JSON inside the tags
            continue
        fields = merge_pairs((name, _json_or_text(value)) for name, value in parameters(body))
        calls.append((JsonObject(fields, call.start(), is_repaired=True), position))
    return calls


def unwrap(value: object, names: Collection[str], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects with reply fields: the value itself, or else those nested in it."""
    inner: Iterable[object] = value if isinstance(value, list) else ()
    if isinstance(value, Mapping):
        by_key = {key.strip().lower(): item for key, item in value.items()}
        if by_key.keys() & set(names):
            yield value
        elif "properties" not in by_key:  # JSON schemas describe reply fields but contain none
            inner = (_arguments(key, item) for key, item in by_key.items() if key != "reasoning")
    if depth < MAX_DEPTH:
        for item in islice(inner, MAX_CALLS):
            yield from unwrap(item, names, depth + 1)


def _arguments(key: str, value: object) -> object:
    """Return a value of a tool call; arguments may be JSON in a string."""
    if key not in ARGUMENT_KEYS or not isinstance(value, str):
        return value
    try:
        return parse_json(value, strict=False, object_pairs_hook=merge_pairs)
    except ValueError:
        return value


def parameters(body: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each parameter of an XML call."""
    for chunk in _PARAMETER_END.split(body)[:-1]:
        if parameter := _PARAMETER.search(chunk):
            name, value = parameter[1] or parameter[3], (parameter[2] or parameter[4] or "").strip()
            yield name, value


def _json_or_text(value: str) -> Any:
    """Parse a list or an object; keep any other value as text, which all fields accept."""
    try:
        return parse_json(value) if value.startswith(("[", "{")) else value
    except ValueError:
        return value
