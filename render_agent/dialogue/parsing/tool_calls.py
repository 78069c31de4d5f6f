"""Reads tool calls that models write as text, although replies were requested as JSON.

Chat templates teach models several forms: JSON with a name and arguments (Hermes, Mistral, Llama), and XML with one
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
        body = text[call.end() : position]
        fields = merge_pairs((name, _json_or_text(value)) for name, value in parameters(body))
        calls.append((JsonObject(fields, call.start(), is_repaired=True), position))
    return calls


def unwrap(value: object, names: Collection[str], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects that contain fields of a reply: the value itself, or else those inside it.

    Args:
        value: A JSON value.
        names: Names of the fields, except `reasoning`, in lower case.
        depth: Number of values that contain this one.
    """
    inner: Iterable[object] = value if isinstance(value, list) else ()
    if isinstance(value, Mapping):
        by_key = {key.strip().lower(): item for key, item in value.items()}
        if by_key.keys() & set(names):
            yield value
        elif "properties" not in by_key:  # a JSON schema describes fields and has none
            inner = (_arguments(key, item) for key, item in by_key.items() if key != "reasoning")
    if depth < MAX_DEPTH:
        for item in islice(inner, MAX_CALLS):
            yield from unwrap(item, names, depth + 1)


def _arguments(key: str, value: object) -> object:
    """Return the value of a key of a tool call, whose arguments may be JSON in a string."""
    if key not in ARGUMENT_KEYS or not isinstance(value, str):
        return value
    try:
        return parse_json(value, strict=False, object_pairs_hook=merge_pairs)
    except ValueError:
        return value


def parameters(body: str) -> Iterator[tuple[str, str]]:
    """Yield the parameters of a call in XML: name and text."""
    for chunk in _PARAMETER_END.split(body)[:-1]:
        if parameter := _PARAMETER.search(chunk):
            name, value = parameter[1] or parameter[3], (parameter[2] or parameter[4] or "").strip()
            yield name, value


def _json_or_text(value: str) -> Any:
    """Return a list or an object; other values remain text, because fields accept it."""
    try:
        return parse_json(value) if value.startswith(("[", "{")) else value
    except ValueError:
        return value
