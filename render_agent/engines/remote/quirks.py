"""What servers do not accept of requests, and what they get instead. A new quirk is a new row of the table."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from render_agent.dialogue.events import OMITTED, RENAMED, SYSTEM_IN_USER
from render_agent.engines.engine import Request
from render_agent.engines.remote.chat_api import ChatApi
from render_agent.engines.remote.phrases import NOT, Meaning, finds
from render_agent.engines.remote.response_bodies import error_message, named_fields

SYSTEM = "system message"
KEYWORD = "schema keyword "  # prefix of parts of JSON schemas
NULL_IN_ENUM = KEYWORD + "null in enum"
UNRECORDED = ""  # no event: replies are checked for what the schema demands anyway
OTHER_LIMIT = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}


@dataclass(frozen=True, slots=True)
class Quirk:
    """A part of requests that servers of some APIs do not accept."""

    part: str
    """A field, SYSTEM, or a part of JSON schemas."""
    apis: str
    errors: str | None
    """Pattern of the errors after which requests are adapted; None if the API does not have the part."""
    event: str = OMITTED
    """How requests are adapted; OMITTED is recorded with the name of the field."""

    @property
    def adaptation(self) -> str:
        """The event of replies to adapted requests."""
        return self.event + self.part if self.event == OMITTED else self.event


def _wrong_limit(name: str) -> str:
    """Return a pattern of errors that reject a name of the token limit, or request the other one."""
    return (
        rf"\b{name}['\"`]?:? ?(?:is |are )?(?:{NOT}|extra )(?:support|permit|allow|input|recogni|known|expect|accept|valid)"
        rf"|(?:unsupported|unknown|unrecognized|unexpected)[\w ]{{0,30}}:? ['\"`]?{name}\b"
        rf"|(?:use|send|pass|try|favou?r of|renamed to) ['\"`]?{OTHER_LIMIT[name]}\b"
    )


ALL = "chat responses anthropic gemini"
SCHEMA = (
    r"\b(?:response_?|json_?)?schema\b|json mode|structured.?outputs?|additionalProperties|\benum\b"
)

QUIRKS = (
    Quirk(SYSTEM, ALL, Meaning.NO_SYSTEM_ROLE.pattern, SYSTEM_IN_USER),
    # OpenAI's own servers get `max_completion_tokens` from the first request on.
    Quirk("max_tokens", "chat", _wrong_limit("max_tokens"), RENAMED),
    Quirk("max_completion_tokens", "chat", _wrong_limit("max_completion_tokens"), RENAMED),
    # Anthropic's get no temperature, unless `--engine-option omit=[]` is passed.
    Quirk("temperature", ALL, r"\btemperature\b"),
    Quirk("seed", "chat gemini", r"\bseed\b"),
    Quirk("seed", "responses anthropic", None),
    Quirk("response_format", "chat", rf"response_?format|guided|grammar|{SCHEMA}"),
    Quirk("text", "responses", rf"\btext\.format\b|{SCHEMA}"),
    Quirk("output_config", "anthropic", rf"output_(?:config|format)|{SCHEMA}"),
    Quirk("response_json_schema", "gemini", rf"response_?json_?schema|{SCHEMA}"),
    Quirk("include", "responses", r"encrypted_?content|\binclude\b"),
    Quirk("n", "chat", r"['\"`]n['\"`]|\bn (?:>|must|should|is)|multiple (?:choices|completions)"),
    Quirk(KEYWORD + "minimum", "anthropic", None, UNRECORDED),
    Quirk(KEYWORD + "maximum", "anthropic", None, UNRECORDED),
    Quirk(KEYWORD + "minItems", "anthropic", None, UNRECORDED),
    Quirk(KEYWORD + "maxItems", "anthropic", None, UNRECORDED),
    Quirk(KEYWORD + "pattern", "gemini", None, UNRECORDED),
    Quirk(NULL_IN_ENUM, "gemini", None, UNRECORDED),  # becomes a type
)


def quirks_of(api: str) -> list[Quirk]:
    return [row for row in QUIRKS if api in row.apis.split()]


def find_adaptation(
    body: Any, fields: Mapping[str, Any], request: Request, api: ChatApi
) -> str | None:
    """Return the event of the adaptation that an error asks for; None if no adaptation helps."""
    text, named = error_message(body), named_fields(body)
    parts = {*fields, *([SYSTEM] if has_system(request) else [])}
    rejected = [
        row
        for row in quirks_of(api.name)
        if row.part in parts
        and row.errors is not None
        and (finds(row.errors, text) or (row.event == OMITTED and row.part in named))
    ]
    # An error may mention further fields.
    row = min(rejected, key=lambda row: row.part not in named, default=None)
    return None if row is None else row.adaptation


def adapt(
    adaptations: Collection[str], fields: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a request with some adaptations, and the events of those that changed them."""
    result, events = dict(fields), []
    for event in sorted(adaptations):
        if event == RENAMED:
            old = next(filter(result.__contains__, OTHER_LIMIT), None)
            if old is None:
                continue
            result[OTHER_LIMIT[old]] = result.pop(old)
        elif result.pop(event.removeprefix(OMITTED), None) is None:
            continue
        events.append(event)
    return result, events


def has_system(request: Request) -> bool:
    return any(message["role"] == "system" for message in request.messages)


def system_in_user(request: Request) -> Request:
    """Move the system message of a request to the beginning of its first user message."""
    system = [p for m in request.messages if m["role"] == "system" for p in m["content"]]
    first, *rest = (message for message in request.messages if message["role"] != "system")
    pieces = [*system, *first["content"]]
    if not any(piece["type"] == "image" for piece in pieces):  # servers may require plain text
        pieces = [{"type": "text", "text": "\n\n".join(piece["text"] for piece in pieces)}]
    return replace(request, messages=[{**first, "content": pieces}, *rest])


def supported_schema(schema: Any, api: ChatApi) -> Any:
    """Return a JSON schema without the parts that an API does not have."""
    parts = {row.part for row in quirks_of(api.name)}

    def convert(part: Any) -> Any:
        if isinstance(part, list | tuple):
            return [*map(convert, part)]
        if not isinstance(part, Mapping):
            return part
        result = {key: convert(value) for key, value in part.items() if KEYWORD + key not in parts}
        if NULL_IN_ENUM in parts and None in result.get("enum", ()):
            texts = [value for value in result["enum"] if value is not None]
            string = {**result, "type": "string", "enum": texts}
            return {"anyOf": [string, {"type": "null"}]}
        return result

    return convert(schema)
