"""The forms of responses: errors get the HTTP status that they mean, and event streams become completions."""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from render_agent.engines.remote.phrases import (
    CUT_OFF,
    LASTING,
    MAX_ERROR_CHARS,
    status_in_words,
)
from render_agent.util.safe_parse import parse_json

SERVER_FAULT = 500  # status of a fault without a code; such requests are retried
BAD_REQUEST = 400
MAX_DEPTH = 6  # maximum nesting of an error message in lists and objects

# Keys of errors that contain their message, or an object with it.
MESSAGES = "error detail message msg errors error_msg base_resp status_msg".split()

END_OF_STREAM = re.compile(rb"(?m)^data: ?\[DONE\]")

# Keys of responses that contain a reply or a list of models.
PAYLOADS = ("choices", "content", "candidates", "output", "promptFeedback", "data")

STATUS_CODE = re.compile("[45][0-9]{2}")

# Where Ollama and llama.cpp quote the model's call that they could not parse.
OLLAMA_QUOTE = ("error parsing tool call: raw='", "', err=")
LLAMA_QUOTE = re.compile(r"failed to parse input at pos \d{1,9}: ", re.IGNORECASE)


def normalize(status: int, body: bytes) -> tuple[int, bytes]:
    """Return the status that a response means, and its body as one JSON object.

    An error inside a success gets the status of its code; a server error that repeats with every request becomes a bad
    request; an error about a malformed reply becomes that reply. An event stream becomes the completion that it contains.
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
        if any(meaning.is_in(message) for meaning in LASTING):
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
    message = error_message(error)
    start, end = OLLAMA_QUOTE
    if start in message[:MAX_ERROR_CHARS]:
        return message.partition(start)[2].rpartition(end)[0]
    found = LLAMA_QUOTE.match(message)
    return message[found.end() :] if found else ""


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
    values = map(fields.get, ("code", "status", "status_code", "type"))
    codes = [str(value) for value in values if isinstance(value, int | str)]
    status = next(filter(STATUS_CODE.fullmatch, codes), None)
    if status is not None:
        return int(status)
    words = status_in_words(" ".join(codes)) or status_in_words(error_message(error))
    return words or SERVER_FAULT


def _join_chunks(stream: bytes) -> bytes:
    """Return the completion of an event stream as JSON: the deltas of every choice, joined."""
    deltas: dict[int, list[dict[str, Any]]] = {}
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
        {"message": _join(deltas[index]), "finish_reason": reasons[index] or end}
        for index in sorted(deltas)
    ]
    return json.dumps({"choices": choices, "usage": usage}).encode()


def _join(deltas: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Join deltas of an object in linear time: texts and lists are joined, of other values the first one counts."""
    values: dict[str, list[Any]] = {}
    for delta in deltas:
        for key, value in delta.items():
            if value:
                values.setdefault(key, []).append(value)
    return {key: _join_values(key, parts) for key, parts in values.items()}


def _join_values(key: str, parts: list[Any]) -> Any:
    is_text = all(isinstance(part, str) for part in parts)
    if is_text and key not in ("role", "id", "type", "name"):  # some servers repeat these
        return "".join(parts)
    if key == "function" and all(isinstance(part, dict) for part in parts):
        return _join(parts)
    if all(isinstance(part, list) for part in parts):
        pieces = [piece for part in parts for piece in part]
        return _join_calls(pieces) if key == "tool_calls" else pieces
    return parts[0]


def _join_calls(deltas: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the tool calls of deltas, which refer to them by index; a delta without one is a call of its own."""
    calls: dict[Any, list[dict[str, Any]]] = {}
    numbers = count()
    for delta in deltas:
        if isinstance(delta, dict):
            index = delta.get("index")
            key = index if isinstance(index, int) else f"call {next(numbers)}"
            calls.setdefault(key, []).append(delta)
    return [_join(parts) for parts in calls.values()]


def _events(stream: bytes) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an event stream."""
    for line in re.split("[\r\n]+", stream.decode("utf-8", "replace")):
        if not line.startswith("data:"):
            continue
        try:
            chunk = parse_json(line[5:])
        except ValueError:
            continue  # [DONE]
        if isinstance(chunk, dict):
            yield chunk
