"""The forms of responses: errors get the HTTP status that they mean, and event streams become completions."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping
from typing import Any

from render_agent.engines.remote.phrases import (
    CUT_OFF,
    LASTING,
    MAX_ERROR_CHARS,
    QUOTES,
    status_in_words,
)
from render_agent.util.safe_parse import parse_json

SERVER_FAULT = 500  # status of a fault without a code; such requests are retried
BAD_REQUEST = 400
MAX_BODY_DEPTH = 100  # nesting of a response, which is handled recursively
MAX_MESSAGE_DEPTH = 6  # nesting of an error message in lists and objects

# Keys of errors that contain their message, or an object with it.
MESSAGES = "error detail message msg errors error_msg base_resp status_msg".split()
# Keys of responses that contain a reply or a list of models.
PAYLOADS = ("choices", "content", "candidates", "output", "promptFeedback", "data")

END_OF_STREAM = re.compile(rb"(?m)^data: ?\[DONE\]")
STATUS_CODE = re.compile("[45][0-9]{2}")
WHOLE = ("role", "id", "type", "name")  # values that some servers repeat in every delta


def parse_body(text: str) -> Any:
    """Return the JSON value of a body; None if it is invalid or nested too deeply."""
    try:
        body = parse_json(text)
    except ValueError:
        return None
    level = [body]
    for _ in range(MAX_BODY_DEPTH):
        level = [part for part in level if isinstance(part, dict | list)]
        inner = (part.values() if isinstance(part, dict) else part for part in level)
        level = [each for part in inner for each in part]
    return None if level else body


def normalize(status: int, body: bytes) -> tuple[int, bytes]:
    """Return the status that a response means, and its body as one JSON object.

    An error inside a success gets the status of its code; a server error that repeats with every request becomes a bad
    request; an error about a malformed reply becomes that reply. An event stream becomes the completion that it contains.
    """
    body = body.removeprefix(BOM_UTF8)
    if status == 200 and body.lstrip()[:8].startswith((b"data:", b"event:", b":")):
        body = _join_chunks(body)
    content = parse_body(body.decode("utf-8", "replace"))
    if reply := _unparsed_reply(content):
        choice = {"message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
        return 200, json.dumps({"choices": [choice]}).encode()
    if status >= 500 and content is not None:
        message = error_message(content)
        if any(meaning.is_in(message) for meaning in LASTING):
            return BAD_REQUEST, body
    if status == 200 and (error := _error_in(content)) is not None:
        return _status_of(error), json.dumps({"error": error}).encode()
    return status, body


def error_message(body: Any, depth: int = MAX_MESSAGE_DEPTH) -> str:
    """Return the message of an error body of any known form; empty if it has none."""
    if isinstance(body, str):
        return body
    if isinstance(body, list) and depth:
        return "; ".join(filter(None, (error_message(part, depth - 1) for part in body[:3])))
    if not isinstance(body, Mapping) or not depth:
        return ""
    for key in MESSAGES:
        if message := error_message(body.get(key), depth - 1):
            place, metadata = body.get("loc"), body.get("metadata")
            if isinstance(metadata, Mapping) and isinstance(metadata.get("raw"), str):
                return f"{message}: {metadata['raw']}"  # OpenRouter: what the provider said
            if key == "msg" and isinstance(place, list):
                return f"{'.'.join(map(str, place))}: {message}"
            return message
    return ""


def named_fields(body: Any, depth: int = MAX_MESSAGE_DEPTH) -> set[str]:
    """Return the request fields that an error body names in `param` or `loc`."""
    if isinstance(body, list) and depth:
        return {name for part in body[:8] for name in named_fields(part, depth - 1)}
    if not isinstance(body, Mapping) or not depth:
        return set()
    place = body.get("loc")
    named = [body.get("param"), *(place if isinstance(place, list) else [])]
    inner = (body.get(key) for key in ("error", "detail", "errors"))
    names = {name for name in named if isinstance(name, str)}
    return names.union(*(named_fields(part, depth - 1) for part in inner))


def _choices(body: Any) -> list[Mapping[str, Any]]:
    choices = body.get("choices") if isinstance(body, Mapping) else None
    found = choices if isinstance(choices, list) else []
    return [choice for choice in found if isinstance(choice, Mapping)]


def _unparsed_reply(body: Any) -> str:
    """Return the model's reply that an error quotes because the server could not parse it; empty for other bodies."""
    error = body.get("error") if isinstance(body, Mapping) else None
    if not error:
        return ""
    if isinstance(error, Mapping) and isinstance(error.get("failed_generation"), str):
        return str(error["failed_generation"])  # Groq
    message = error_message(error)
    for start, end in QUOTES:
        if match := re.search(start, message[:MAX_ERROR_CHARS], re.IGNORECASE):
            quote = message[match.end() :]
            return quote.rpartition(end)[0] if end else quote
    return ""


def _error_in(body: Any) -> Any:
    """Return the error inside a successful response, at its top or in a choice; None if there is none."""
    if isinstance(body, list):
        errors = (_error_in(part) for part in body if isinstance(part, dict))
        return next(filter(None, errors), None)
    if not isinstance(body, Mapping):
        return None
    if error := next(filter(None, (part.get("error") for part in (body, *_choices(body)))), None):
        return error
    has_payload = body.get("object") != "error" and any(body.get(key) for key in PAYLOADS)
    return dict(body) if not has_payload and error_message(body) else None


def _status_of(error: Any) -> int:
    """Return the HTTP status that an error means."""
    fields = error if isinstance(error, Mapping) else {}
    values = map(fields.get, ("code", "status", "status_code", "type"))
    codes = [str(value) for value in values if isinstance(value, int | str)]
    if status := next(filter(STATUS_CODE.fullmatch, codes), None):
        return int(status)
    words = status_in_words(" ".join(codes)) or status_in_words(error_message(error))
    return words or SERVER_FAULT


def _join_chunks(stream: bytes) -> bytes:
    """Return the completion of an event stream as JSON: the deltas of every choice, joined."""
    deltas: dict[int, list[Any]] = {}
    reasons: dict[int, Any] = {}
    usage = None
    for chunk in _events(stream):
        if _error_in(chunk) is not None:
            return json.dumps(chunk).encode()
        usage = chunk.get("usage") or usage
        for part in _choices(chunk):
            index = part.get("index")
            index = index if isinstance(index, int) else 0
            delta = part.get("delta") or part.get("message")
            deltas.setdefault(index, []).append(delta if isinstance(delta, dict) else {})
            reasons[index] = part.get("finish_reason") or reasons.get(index)
    if not deltas:
        return stream  # of another API
    end = None if END_OF_STREAM.search(stream) else CUT_OFF
    choices = [
        {"message": _join("message", deltas[index]), "finish_reason": reasons[index] or end}
        for index in sorted(deltas)
    ]
    return json.dumps({"choices": choices, "usage": usage}).encode()


def _join(key: str, parts: list[Any]) -> Any:
    """Join the deltas of a value in linear time: texts, objects and lists; of other values the first one counts."""
    if key not in WHOLE and all(isinstance(part, str) for part in parts):
        return "".join(parts)
    if all(isinstance(part, dict) for part in parts):
        values: dict[str, list[Any]] = {}
        for part in parts:
            for name, value in part.items():
                values.setdefault(name, []).extend([value] if value else [])
        return {name: _join(name, found) for name, found in values.items() if found}
    if not all(isinstance(part, list) for part in parts):
        return parts[0]
    pieces = [piece for part in parts for piece in part]
    if key != "tool_calls":
        return pieces
    calls: dict[Any, list[Any]] = {}  # a delta without an index is a call of its own
    for number, piece in enumerate(piece for piece in pieces if isinstance(piece, dict)):
        index = piece.get("index")
        calls.setdefault(index if isinstance(index, int) else f"call {number}", []).append(piece)
    return [_join("call", call) for call in calls.values()]


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an event stream."""
    for line in re.split("[\r\n]+", stream.decode("utf-8", "replace")):
        chunk = parse_body(line[5:]) if line.startswith("data:") else None
        if isinstance(chunk, dict):
            yield chunk
