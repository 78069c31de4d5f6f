"""Tool calls as text: reads them in the syntaxes of chat templates, and writes them in that of Hermes.

Logs and `Reply.samples` contain calls as text in the syntax of the model's chat template. Servers return calls as
data, which their engines convert with `call_text`.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from render_agent.dialogue.reply import TOOLS, Written, merge_pairs
from render_agent.util.safe_parse import parse_json

MAX_PYTHON_CHARS = 10_000  # longest list of calls in Python that is parsed
MAX_CALLS = 20  # per reply; further calls are not parsed
MAX_OPENINGS = 1_000  # per reply, of calls and of what only looks like one

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
    rf"|(?:\A|(?<=</think>))\s*+(?:<\|python_tag\|>|```(?:tool_code|python)\b)?\s*+\[?((?:{'|'.join(TOOLS)})\((?:(?!</think>).)*\))\]?\s*+"
    r"(?:```)?\s*+\Z",
    re.DOTALL,
)
# What differs from JSON in Gemma's arguments: strings between marks, and names without quotes; not strings in quotes.
_GEMMA = re.compile(
    r'<\|"\|>(.*?)<\|"\|>|(?<![\w-])([^\W\d][\w-]*+)(?=\s*:)|"(?:[^"\\]|\\.)*+"?', re.DOTALL
)
# How calls begin: in tags, or after Mistral's mark.
_OPENING = re.compile(
    r"<(tool_call)>|<(function)=([\w-]+)>|<(invoke)\s+name=[\"']([\w-]+)[\"']>"
    r"|\[TOOL_CALLS\]\s*([\w-]+)\s*(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]\s*)?(?=\{)"
)
_XML = re.compile(r"\s*<function=([\w-]+)>")
_GLM = re.compile(r"\s*([\w-]+)\s*(?=<arg_key>|\Z)")
_PARAMETER = re.compile(
    r"<parameter(?:=|\s+name\s*=\s*)[\"']?([\w.-]+)[\"']?\s*>(.*)"
    r"|<arg_key>([^<>]*)</arg_key>\s*<arg_value>(.*)",
    re.DOTALL,
)
_PARAMETER_END = re.compile(r"</parameter>|</arg_value>")


class ToolCall(NamedTuple):
    """A tool call in a reply, with the indices of its start and end."""

    name: str
    arguments: Mapping[str, Any]
    start: int = 0
    end: int = 0


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
    """Write a call with its arguments, or their JSON, as text in the syntax of Hermes and Qwen."""
    arguments = decode_arguments(arguments)
    if isinstance(arguments, str):  # the model is told what is wrong with it
        return (
            f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'
        )
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def find_calls(reply: str) -> tuple[str, list[ToolCall]]:
    """Return the closed tool calls of a reply without thinking, and the reply in which their indices are.

    Reads the syntax of Hermes and Qwen3-VL, Qwen3-Coder and Qwen3.5, GLM, Claude, Mistral, Gemma, Kimi, LFM2, and Llama
    4. The calls of some are first rewritten in that of Hermes. Takes time linear in the length of the reply.
    """
    reply = _SPECIAL.sub(_call_in_hermes, reply)
    calls: list[ToolCall] = []
    unclosed: set[str] = set()
    position = 0
    for _ in range(MAX_OPENINGS):
        match = _OPENING.search(reply, position)
        if match is None or len(calls) == MAX_CALLS:
            break
        position = match.end()
        tag = match[1] or match[2] or match[4]
        if tag is None:
            call, position = _mistral_call(reply, match)
        else:
            end = -1 if tag in unclosed else reply.find(f"</{tag}>", position)
            if end < 0:
                unclosed.add(tag)
                continue
            call = _tagged_call(reply[position:end], match[3] or match[5])
            position = end + len(f"</{tag}>") if call else position
        if call is not None:
            calls.append(call._replace(start=match.start(), end=position))
    return reply, calls


def split_calls(reply: str) -> tuple[str, list[ToolCall]]:
    """Split a reply into the text outside its tool calls, and the calls."""
    text, calls = find_calls(reply)
    starts = [0, *(call.end for call in calls)]
    ends = [*(call.start for call in calls), len(text)]
    outside = "".join(text[start:end] for start, end in zip(starts, ends, strict=True))
    return outside.strip(), calls


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


def _tagged_call(body: str, name: str | None) -> ToolCall | None:
    """Parse the text between tags, of which some have the name; return None if it is not a call."""
    match = None if name else _XML.match(body) or _GLM.match(body)
    if match or (name and not body.lstrip().startswith("{")):
        parameters = {key: _json_or_text(text) for key, text in _parameters(body)}
        return ToolCall(match[1] if match else str(name), parameters)
    call: Any = _json_or_text(body)
    if name and isinstance(call, dict):  # Llama's syntax
        call = {"name": name, "arguments": call}
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        return None
    arguments = call.get("arguments", call.get("parameters"))
    if isinstance(arguments, str):
        arguments = _json_or_text(arguments)
    return ToolCall(call["name"], arguments if isinstance(arguments, dict) else {})


def _mistral_call(reply: str, match: re.Match[str]) -> tuple[ToolCall | None, int]:
    """Return a call of Mistral, whose arguments follow its name, and the index after it."""
    try:
        arguments, end = DECODER.raw_decode(reply, match.end())
    except (ValueError, RecursionError):
        return None, match.end()
    return ToolCall(match[6], arguments), end


def _parameters(body: str) -> Iterator[tuple[str, str]]:
    """Yield the name and text of each parameter of an XML call."""
    for chunk in _PARAMETER_END.split(body)[:-1]:
        if parameter := _PARAMETER.search(chunk):
            name, value = parameter[1] or parameter[3], (parameter[2] or parameter[4] or "").strip()
            yield name, value


def _json_or_text(value: str) -> Any:
    """Parse a parameter as JSON, or return its text."""
    try:
        return DECODER.decode(value.strip())
    except (ValueError, RecursionError):
        return value


DECODER = json.JSONDecoder(
    strict=False, parse_float=Written, parse_int=Written, object_pairs_hook=merge_pairs
)
