"""Native tool calls as text: reads them in the syntaxes of chat templates, and writes them in that of Hermes.

Logs and `Reply.samples` contain calls as text in the syntax of the model's chat template. Servers return calls as
data, which their engines convert with `call_text`.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.parsing.tool_calls import parameters
from render_agent.util.safe_parse import parse_json

# Tools and the reply fields that are their parameters, as in the agents of embodied benchmarks.
TOOLS: Mapping[str, tuple[str, ...]] = {
    "look": ("rotation_angle_degrees", "pitch_degrees", "look_at", "view"),
    "move": (
        "rotation_angle_degrees",
        "forward_meters",
        "left_meters",
        "z_delta_meters",
        "view",
    ),
    "measure": ("measure",),
    "answer": ("answer", "done"),
}

MAX_PYTHON_CHARS = 10_000  # longest list of calls in Python that is parsed
MAX_CALLS = 20  # per reply; further calls are not parsed


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call in a reply."""

    name: str
    arguments: Mapping[str, Any]


def decode_arguments(arguments: Any) -> Any:
    """Return the arguments of a call, which some servers encode twice; return invalid JSON unchanged."""
    decoded = arguments
    try:
        while isinstance(decoded, str):
            decoded = parse_json(decoded) if decoded.strip() else {}
    except ValueError:
        return arguments
    return decoded


def call_text(name: str, arguments: Any) -> str:
    """Write a call as text, in the syntax of Hermes and Qwen."""
    arguments = decode_arguments(arguments)
    if isinstance(arguments, str):  # the model is told what is wrong with it
        return (
            f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'
        )
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)
_MISTRAL = re.compile(
    r"\[TOOL_CALLS\]\s*([\w-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]\s*)?(?=\{)"
)
_XML = re.compile(r"\s*<function=([\w-]+)>")
_GLM = re.compile(r"\s*([\w-]+)\s*(?=<arg_key>|\Z)")


# Tokens around calls and their parts. Replies must keep them, although tokenizers declare many of them as special.
TOOL_MARKS = frozenset(
    "<tool_call> </tool_call> <arg_key> </arg_key> <arg_value> </arg_value> [TOOL_CALLS] [CALL_ID] [ARGS]"
    ' <|tool_call> <tool_call|> <|"|> <|tool_call_start|> <|tool_call_end|> <|tool_call_begin|>'
    " <|tool_call_argument_begin|>".split()
)
# Calls between special tokens: name and arguments of Gemma 4, of Kimi, and LFM2's list of calls in Python. Then replies
# that consist of calls in Python, as Llama 4 and Gemma 3 write them.
_SPECIAL = re.compile(
    r"<\|tool_call>\s*call:([\w-]+)(\{(?:(?!<\|tool_call>).)*?\})\s*<tool_call\|>"
    r"|<\|tool_call_begin\|>\s*(?:functions\.)?([\w-]+)(?::\d+)?\s*<\|tool_call_argument_begin\|>"
    r"((?:(?!<\|tool_call_).)*)<\|tool_call_end\|>"
    r"|<\|tool_call_start\|>((?:(?!<\|tool_call_).)*)<\|tool_call_end\|>"
    rf"|(?:\A|(?<=</think>))\s*+(?:<\|python_tag\|>|```(?:tool_code|python)\b)?\s*+\[?((?:{'|'.join(TOOLS)})\(.*\))\]?\s*+"
    r"(?:```)?\s*+\Z",
    re.DOTALL,
)
# What differs from JSON in Gemma's arguments: strings between marks, and names without quotes; not strings in quotes.
_GEMMA = re.compile(r'<\|"\|>(.*?)<\|"\|>|([^\W\d][\w-]*)(?=\s*:)|"(?:[^"\\]|\\.)*"', re.DOTALL)


def in_hermes(reply: str) -> str:
    """Rewrite calls between special tokens (Gemma 4, Kimi, LFM2) and calls in Python in the syntax of Hermes."""
    return _SPECIAL.sub(_call_in_hermes, reply)


def _call_in_hermes(match: re.Match[str]) -> str:
    gemma, arguments, kimi, kimi_arguments, python_list, python = match.groups()
    if gemma is not None:
        return call_text(gemma, _GEMMA.sub(_gemma_token_in_json, arguments))
    if kimi is not None:
        return call_text(kimi, kimi_arguments)
    calls = _python_calls(python_list or f"[{python}]")
    return "\n".join(call_text(call.name, call.arguments) for call in calls) or match[0]


def _gemma_token_in_json(token: re.Match[str]) -> str:
    text = token[1] if token[2] is None else token[2]
    return token[0] if text is None else json.dumps(text, ensure_ascii=False)


def _python_calls(source: str) -> list[ToolCall]:
    """Return the calls in a Python list; empty if it is not one."""
    source = source.strip()[:MAX_PYTHON_CHARS]
    calls = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in strings
            tree = ast.parse(source, mode="eval").body
        for call in getattr(tree, "elts", ()):
            if call.args:  # the names of positional arguments are unknown
                return []
            arguments = {
                str(keyword.arg): _literal(ast.get_source_segment(source, keyword.value) or "")
                for keyword in call.keywords
            }
            calls.append(ToolCall(call.func.id, arguments))
    except (AttributeError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return calls


def _literal(source: str) -> Any:
    """Return the value of a Python literal or of JSON, or else the text."""
    try:
        return ast.literal_eval(source)
    except (SyntaxError, ValueError):
        return _json_or_text(source)


def split_calls(reply: str) -> tuple[str, list[ToolCall]]:
    """Split a reply into the text outside its tool calls, and the calls.

    Reads the syntax of Hermes and Qwen3-VL, Qwen3-Coder and Qwen3.5, GLM, Mistral, Gemma, Kimi, LFM2, and Llama 4. Takes
    time linear in its length.
    """
    reply = in_hermes(reply)
    calls: list[ToolCall] = []
    outside, position = [], 0
    for match in _TAGGED.finditer(reply):
        if len(calls) == MAX_CALLS:
            break
        if (call := _tagged_call(match[1])) is not None:
            calls.append(call)
            outside.append(reply[position : match.start()])
            position = match.end()
    for match in () if calls else _MISTRAL.finditer(reply):
        if len(calls) == MAX_CALLS:
            break
        if (arguments_and_end := _leading_object(reply, match.end())) is not None:
            arguments, end = arguments_and_end
            calls.append(ToolCall(match[1], arguments))
            outside.append(reply[position : match.start()])
            position = end
    outside.append(reply[position:])
    return "".join(outside).strip(), calls


def _tagged_call(body: str) -> ToolCall | None:
    """Parse the text between <tool_call> tags; return None if it is not a call."""
    if match := _XML.match(body) or _GLM.match(body):
        return ToolCall(match[1], {name: _json_or_text(text) for name, text in parameters(body)})
    try:
        call = parse_json(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", call.get("parameters"))
    if isinstance(arguments, str):
        arguments = _json_or_text(arguments)
    return ToolCall(call["name"], arguments if isinstance(arguments, dict) else {})


def _leading_object(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    """Return the JSON object at an index of a text, and the index after it."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    return (value, end) if isinstance(value, dict) else None


def _json_or_text(value: str) -> Any:
    """Parse a parameter as JSON, or return its text."""
    try:
        return parse_json(value)
    except (ValueError, RecursionError):
        return value
