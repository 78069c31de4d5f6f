"""JSON objects in replies: found in any text, and why there is none.

It must be JSON except for line breaks inside strings, which are forgiven: single quotes, trailing commas and Python's
True are reported to the model, not guessed at.
"""

from __future__ import annotations

import json
import re
from typing import Any

from render_agent.dialogue.chat import without_thinking
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.wording import Wording

MAX_SCANNED_CHARACTERS = 500_000_000
"""Characters that may be looked through for broken objects; a fraction of a second."""

_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
_OBJECT = re.compile(r"\{(?=\s*(?:[\"}]|\Z))")


def last_object(text: str, wording: Wording) -> dict[str, Any] | Malformed:
    """Return the last whole JSON object in a text, or why there is none. RecursionError if it is nested too deeply."""
    text = text.rstrip()
    if not text:
        return Malformed(wording("reply.empty"))
    decoder = json.JSONDecoder(strict=False, parse_int=_integer)
    last: dict[str, Any] | None = None
    fault = wording("reply.single_quotes" if "{" in text else "reply.no_object")
    patience = MAX_SCANNED_CHARACTERS
    opening = _OBJECT.search(text)
    while opening and patience > 0:
        start = opening.start()
        try:
            last, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if _cut_off(error, text):
                fault = wording("reply.cut_off")
                break
            fault = wording("reply.invalid", error=f"{error.msg[:1].lower()}{error.msg[1:]}")
            end = max(error.pos, start + 1)  # what was understood up to here belongs to this object
            patience -= error.pos  # the decoder counts the lines before every error
        except RecursionError:
            fault = wording("reply.nested")
            break
        opening = _OBJECT.search(text, end)
    return Malformed(fault) if last is None else last


def unfenced(text: str) -> str:
    """Return a reply without its think blocks, and without a code fence around the whole of it."""
    reply = without_thinking(text).strip()
    fenced = _FENCED.fullmatch(reply)
    return fenced[1] if fenced else reply


def _cut_off(error: json.JSONDecodeError, text: str) -> bool:
    """Return True if a text ended where more was to come."""
    rest = text[error.pos : error.pos + 6]
    in_a_word = any(word.startswith(rest) for word in ("true", "false", "null"))
    return in_a_word or error.msg.startswith("Unterminated")


def _integer(digits: str) -> int | float:
    """Return an integer, as a float if it is so long that only its size can matter."""
    return int(digits) if len(digits) < 20 else float(digits)
