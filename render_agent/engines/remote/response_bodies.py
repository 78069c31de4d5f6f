"""The forms of responses: errors get the HTTP status that they mean, and event streams become completions."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from typing import Any

from render_agent.util.safe_parse import parse_json

SERVER_FAULT = 500  # status of a fault without a code; such requests are retried
BAD_REQUEST = 400
MAX_DEPTH = 6  # maximum nesting of an error message in lists and objects

# Keys of errors that contain their message, or an object with it.
MESSAGES = "error detail message msg errors error_msg base_resp status_msg".split()

LENGTH_LIMITS = frozenset("length max_tokens max_output_tokens max_length".split())
"""Finish reasons, in lower case, of replies cut off at the token limit."""

CONTEXT_LIMITS = frozenset(
    "model_length model_context_window_exceeded context_window_exceeded context_length_exceeded".split()
)
"""Finish reasons of replies cut off at the end of the context window."""

FILTERS = frozenset(
    "content_filter content_filtered safety recitation prohibited_content blocklist spii"
    " image_safety image_recitation image_prohibited_content model_armor refusal sensitive guardrail_intervened".split()
)
"""Finish reasons, in lower case, of replies that a content filter ended."""

FAULTS = frozenset(
    "error abort aborted cancelled canceled failed network_error server_error timeout"
    " insufficient_system_resource".split()
)
"""Finish reasons of replies that the server could not complete."""

FAULTS_IF_EMPTY = frozenset(
    "other unknown finish_reason_unspecified malformed_function_call malformed_response"
    " incomplete in_progress queued".split()
) | {""}
"""Finish reasons, "" for none, that are faults if the reply has no text."""

CUT_OFF = "aborted"  # finish reason of event streams that end early
END_OF_STREAM = re.compile(rb"(?m)^data: ?\[DONE\]")

# Keys of responses that contain a reply or a list of models.
PAYLOADS = ("choices", "content", "candidates", "output", "promptFeedback", "data")

TOO_LONG = re.compile(
    r"context.?(?:length|window|size|limit)|context the overflows|(?:model|prompt|input|max(?:imum)?) length"
    r"|(?:prompt|input|request|content|entity)\b[\w ()]{0,40}\btoo (?:long|large)\b"
    r"|input token count|maximum number of (?:input )?tokens|reduce the length"
    r"|`?inputs`? (?:tokens )?.{0,30}must (?:be|have) (?:<=|less)"
    r"|too many (?:tokens|images)|at most [1-9]\d* image|\bimages?\b[^.]{0,30} exceed|maximum of \d+ images",
    re.IGNORECASE,
)
"""Errors of servers about prompts that are too long or have too many images."""

NO_TOOLS = re.compile(
    r"(?:not|n't) support (?:the )?(?:tool|function)|support tool use|tools param requires|enable-auto-tool-choice"
    r"|(?:tool|function) (?:use|choice|calling|calls?) (?:is |are )?(?:not|n't) (?:support|enabled|available)",
    re.IGNORECASE,
)
"""Errors of servers whose model cannot call tools."""

THOUGHT_MISSING = re.compile(
    r"missing (?:an? )?\W?(?:thought_?signature|reasoning_content)"
    r"|reasoning_content\b.{0,60}(?:missing|passed back|required)",
    re.IGNORECASE,
)
"""Errors of servers that require the thinking back with tool calls, in another form than this program sends it."""

# Messages of Ollama and llama.cpp about a call that they could not parse.
UNPARSED = re.compile(
    r"error parsing tool call: raw='(.*)', err=|^failed to parse input at pos \d+: (.+)",
    re.DOTALL | re.IGNORECASE,
)

NO_RESULT_IMAGES = re.compile(r"function_?response\.parts\W+is not supported", re.IGNORECASE)
"""Errors of Gemini models that accept no images in function responses."""

NO_IMAGES = re.compile(
    r"(?:image|vision|multi-?modal) (?:input |content |url )?s?(?:is |are )?(?:not|n't) (?:support|enabled|available)"
    r"|(?:not|n't) (?:support|accept|handle)\w* (?:\w+ )?(?:image|vision|multi-?modal)"
    r"|no endpoints? found that support image|unsupported content type.{0,20}image_url"
    r"|not an? (?:multi-?modal|vision)|at most 0 image",
    re.IGNORECASE,
)
"""Messages of servers whose model accepts no images."""

FILTERED = re.compile(
    r"content.?filter|content management policy|ResponsibleAIPolicy|data_inspection_failed|moderation|invalid_prompt"
    r"|blocked (?:by|due to)|safety (?:system|settings|policy)",
    re.IGNORECASE,
)
"""Errors of servers whose content filter rejects a prompt."""

NO_SYSTEM_ROLE = re.compile(
    r"system (?:role|message|prompt|instruction)s?\b[\w '\"]{0,40}(?:not|n't|un)[ -]?(?:supported?|allowed|enabled)"
    r"|developer instruction is not enabled|(?:not|n't) support (?:the )?[\"'`]?system"
    r"|conversation roles must alternate|roles must alternate user"
    r"|(?:invalid|unsupported|unknown) (?:value|role)\W{1,4}system\b",
    re.IGNORECASE,
)
"""Messages of servers that have no system role, such as those of chat templates without one."""

# Status of an error without a numeric code, by words in its code, status, type or message.
STATUS_WORDS = (
    (429, "rate.?limit|too.?many.?requests|resource.?exhausted|throttl"),
    (400, TOO_LONG.pattern),
    (529, "overloaded_error"),
    (503, "overloaded|unavailable|capacity"),
    (401, "unauthenticated|authentication|unauthorized|invalid.?api.?key|incorrect.?api.?key"),
    (403, "permission|forbidden"),
    (404, "not.?found|no endpoints? found"),
    (408, "deadline.?exceeded|timed?.?out"),
    (400, "invalid|unsupported|not supported|bad.?request|context.?length|content.?filter"),
)


def normalize(status: int, body: bytes) -> tuple[int, bytes]:
    """Return the status that a response means, and its body as one JSON object.

    Args:
        status: HTTP status. An error inside a success gets the status of its code; a server error that repeats with
            every request becomes a bad request; an error about a malformed reply becomes that reply.
        body: The body. An event stream becomes the completion that it contains.
    """
    body = body.removeprefix(BOM_UTF8)
    if status == 200 and body.lstrip()[:8].startswith((b"data:", b"event:", b":")):
        body = _join_chunks(body)
    try:
        content = parse_json(body.decode("utf-8", "replace"))
    except ValueError:
        content = None
    if reply := _unparsed_reply(content):
        choice = {"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
        return 200, json.dumps({"choices": [choice]}).encode()
    if status >= 500 and content is not None:
        message = error_message(content)
        if any(
            lasting.search(message) for lasting in (NO_IMAGES, NO_SYSTEM_ROLE, NO_TOOLS, TOO_LONG)
        ):
            return BAD_REQUEST, body
    if status != 200:
        return status, body
    error = _error_in(content)
    if error is not None:
        return _status_of(error), json.dumps({"error": error}).encode()
    return status, body


def error_message(body: Any, depth: int = MAX_DEPTH) -> str:
    """Return the message of an error body of any known form; empty if it has none."""
    if isinstance(body, str):
        return body
    if not depth:
        return ""
    if isinstance(body, list):
        return "; ".join(filter(None, (error_message(part, depth - 1) for part in body[:3])))
    if not isinstance(body, Mapping):
        return ""
    for key in MESSAGES:
        if message := error_message(body.get(key), depth - 1):
            place = body.get("loc")
            metadata = body.get("metadata")
            if isinstance(metadata, Mapping) and isinstance(metadata.get("raw"), str):
                return f"{message}: {metadata['raw']}"  # OpenRouter: what the provider said
            if key == "msg" and isinstance(place, list):
                return f"{'.'.join(map(str, place))}: {message}"
            return message
    return ""


def named_fields(body: Any, depth: int = MAX_DEPTH) -> set[str]:
    """Return the request fields that an error body names in `param` or `loc`."""
    if isinstance(body, list) and depth:
        return {name for part in body[:8] for name in named_fields(part, depth - 1)}
    if not isinstance(body, Mapping) or not depth:
        return set()
    names = {body["param"]} if isinstance(body.get("param"), str) else set()
    if isinstance(body.get("loc"), list):
        names |= {part for part in body["loc"] if isinstance(part, str)}
    inner = (body.get(key) for key in ("error", "detail", "errors"))
    return names.union(*(named_fields(part, depth - 1) for part in inner))


def _choices(body: Any) -> list[Mapping[str, Any]]:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    return (
        [choice for choice in choices if isinstance(choice, Mapping)]
        if isinstance(choices, list)
        else []
    )


def _unparsed_reply(body: Any) -> str:
    """Return the model's reply that an error quotes because the server could not parse it; empty for other bodies."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not error:
        return ""
    if isinstance(error, Mapping) and isinstance(error.get("failed_generation"), str):
        return str(error["failed_generation"])  # Groq
    found = UNPARSED.search(error_message(error))
    return next(filter(None, found.groups()), "") if found else ""


def _error_in(body: Any) -> Any:
    """Return the error inside a successful response, at its top or in a choice; None if there is none."""
    if isinstance(body, list):
        return next(
            filter(None, (_error_in(part) for part in body if isinstance(part, dict))), None
        )
    if not isinstance(body, Mapping):
        return None
    if error := body.get("error") or next(
        (c["error"] for c in _choices(body) if c.get("error")), None
    ):
        return error
    has_payload = body.get("object") != "error" and any(body.get(key) for key in PAYLOADS)
    return dict(body) if not has_payload and error_message(body) else None


def _status_of(error: Any) -> int:
    """Return the HTTP status that an error means."""
    fields = error if isinstance(error, Mapping) else {}
    for value in map(fields.get, ("code", "status", "status_code")):
        text = str(value)
        if text.isdecimal() and 400 <= int(text[:9]) <= 599:
            return int(text)
    words = [str(fields.get(key) or "") for key in ("code", "status", "type")]
    for text in (" ".join(words), error_message(error)):
        for status, pattern in STATUS_WORDS:
            if re.search(pattern, text, re.IGNORECASE):
                return status
    return SERVER_FAULT


def _join_chunks(stream: bytes) -> bytes:
    """Return the completion of an event stream as JSON: the deltas of every choice, joined."""
    choices: dict[int, dict[str, Any]] = {}
    usage = None
    for chunk in _events(stream):
        if _error_in(chunk) is not None:
            return json.dumps(chunk).encode()
        usage = chunk.get("usage") or usage
        for part in _choices(chunk):
            index = part.get("index")
            choice = choices.setdefault(index if isinstance(index, int) else 0, {"message": {}})
            message = choice["message"]
            choice["finish_reason"] = part.get("finish_reason") or choice.get("finish_reason")
            delta = part.get("delta") or part.get("message")
            for key, value in delta.items() if isinstance(delta, dict) else ():
                if key == "tool_calls":
                    message[key] = _join_calls(message.get(key) or [], value)
                else:
                    message[key] = _join(message.get(key), value, joins=key != "role")
    if not choices:
        return stream  # of another API
    if not END_OF_STREAM.search(stream):
        for choice in choices.values():
            choice["finish_reason"] = choice.get("finish_reason") or CUT_OFF
    whole = {"choices": [choices[index] for index in sorted(choices)], "usage": usage}
    return json.dumps(whole).encode()


def _join(earlier: Any, value: Any, *, joins: bool = True) -> Any:
    """Return a field of a message after a delta: joined if both are texts, otherwise the last value that is not empty."""
    if joins and isinstance(value, str) and isinstance(earlier, str):
        return earlier + value
    return value or earlier


def _join_calls(calls: list[dict[str, Any]], deltas: Any) -> list[dict[str, Any]]:
    """Return the tool calls of a message after deltas, which refer to them by index."""
    calls = list(calls)
    for delta in deltas if isinstance(deltas, list) else ():
        function = delta.get("function") if isinstance(delta, dict) else None
        if not isinstance(function, dict):
            continue
        index = delta.get("index")
        if not isinstance(index, int) or not 0 <= index < len(calls):
            calls.append(delta)
            continue
        earlier = calls[index]["function"]
        merged = {key: _join(earlier.get(key), value) for key, value in function.items()}
        calls[index] = {**calls[index], "function": {**earlier, **merged}}
    return calls


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an event stream."""
    for line in stream.decode("utf-8", "replace").splitlines():
        name, _, data = line.partition(":")
        if name != "data":
            continue
        try:
            chunk = parse_json(data)
        except ValueError:
            continue  # [DONE]
        if isinstance(chunk, dict):
            yield chunk
