"""What servers do not accept of requests, and what they get instead. A new quirk is a new row."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.dialogue.events import OMITTED, RENAMED, SYSTEM_IN_USER
from render_agent.engines.remote.phrases import NOT, Meaning

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
    Quirk("max_tokens", "chat", _wrong_limit("max_tokens"), RENAMED),
    Quirk("max_completion_tokens", "chat", _wrong_limit("max_completion_tokens"), RENAMED),
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
