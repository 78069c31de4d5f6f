"""Reads tool calls that models write as text, although replies were requested as JSON.

Chat templates teach models several forms: JSON with a name and arguments (Hermes, Mistral, Llama), and XML with one
element per parameter (Qwen3-Coder, GLM, Claude).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from render_agent.dialogue.parsing.json_objects import JsonObject, merge_pairs
from render_agent.util.safe_parse import parse_json

MAX_DEPTH = 4  # levels of wrapping, such as {"tool_calls": [{"function": {"arguments": {…}}}]}
MAX_CALLS = 100  # in a reply; further ones are ignored, because only the first is carried out

_CALL = re.compile(r"<(function|invoke)\b[^<>]*>|<(tool_call)>\s*+[\w.-]*+\s*+(?=<arg_key>)")
_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name\s*=\s*)[\"']?([\w.-]+)[\"']?\s*>(.*)"
    r"|<arg_key>([^<>]*)</arg_key>\s*<arg_value>(.*)",
    re.DOTALL,
)
_PARAMETER_END = re.compile(r"</parameter>|</arg_value>")


def xml_calls(text: str, *, is_complete: bool) -> list[tuple[JsonObject, int]]:
    """Return the calls in XML with the indices after them.

    Args:
        text: A reply without thinking.
        is_complete: False if the text was cut off: a call without its closing tag is then not read.
    """
    calls: list[tuple[JsonObject, int]] = []
    position = 0
    while len(calls) < MAX_CALLS and (call := _CALL.search(text, position)):
        end = text.find(f"</{call[1] or call[2]}>", call.end())
        if end < 0 and not is_complete:
            break
        position = len(text) if end < 0 else end
        fields = merge_pairs(_parameters(text[call.end() : position]))
        calls.append((JsonObject(fields, call.start(), is_repaired=True), position))
    return calls


def unwrap(value: object, names: Collection[str], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that contain fields of a reply: the value itself, or else those inside it.

    Args:
        value: A JSON value.
        names: Names of fields in lower case.
        depth: Number of values that contain this one.
    """
    if isinstance(value, str) and value.lstrip().startswith("{") and 0 < depth <= MAX_DEPTH:
        try:
            value = parse_json(value, strict=False, object_pairs_hook=merge_pairs)
        except ValueError:
            return
    if isinstance(value, Mapping):
        keys = {key.strip().lower() for key in value}
        if keys & set(names):
            yield value
            return
        if "properties" in keys:  # a JSON schema describes fields and has none
            return
        value = [*value.values()]
    if isinstance(value, list) and depth < MAX_DEPTH:
        for item in value[:MAX_CALLS]:
            yield from unwrap(item, names, depth + 1)


def _parameters(body: str) -> Iterator[tuple[str, Any]]:
    for chunk in _PARAMETER_END.split(body)[:-1]:
        if parameter := _PARAMETER.search(chunk):
            name, value = parameter[1] or parameter[3], (parameter[2] or parameter[4] or "").strip()
            yield name, _json_or_text(value)


def _json_or_text(value: str) -> Any:
    """Return a list or an object; other values remain text, because fields accept it."""
    try:
        return parse_json(value) if value.startswith(("[", "{")) else value
    except ValueError:
        return value
