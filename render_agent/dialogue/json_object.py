"""Finds JSON objects in replies.

Parsing is strict except that line breaks inside strings are accepted. Single quotes, trailing commas and Python's
True are reported to the model rather than repaired.
"""

from __future__ import annotations

import json
import re
from typing import Any

from render_agent.dialogue.chat import without_thinking
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.wording import Wording

# Budget for scanning past broken objects, in characters; keeps a hostile reply under a second.
MAX_SCANNED_CHARACTERS = 500_000_000

_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
_OBJECT = re.compile(r"\{(?=\s*(?:[\"}]|\Z))")


def last_object(text: str, wording: Wording) -> dict[str, Any] | Malformed:
    """Return the last complete JSON object in a text, or why there is none.

    Raises:
        RecursionError: The object is nested too deeply.
    """
    text = text.rstrip()
    if not text:
        return Malformed(wording("reply.empty"))
    decoder = json.JSONDecoder(strict=False, parse_int=_integer)
    last: dict[str, Any] | None = None
    fault = wording("reply.single_quotes" if "{" in text else "reply.no_object")
    budget = MAX_SCANNED_CHARACTERS
    opening = _OBJECT.search(text)
    while opening and budget > 0:
        start = opening.start()
        try:
            last, end = decoder.raw_decode(text, start)
        except json.JSONDecodeError as error:
            if _is_cut_off(error, text):
                fault = wording("reply.cut_off")
                break
            fault = wording("reply.invalid", error=f"{error.msg[:1].lower()}{error.msg[1:]}")
            end = max(error.pos, start + 1)  # text before the error belongs to the broken object
            budget -= error.pos  # the decoder scans from the start to count lines for each error
        except RecursionError:
            fault = wording("reply.nested")
            break
        opening = _OBJECT.search(text, end)
    return Malformed(fault) if last is None else last


def unfenced(text: str) -> str:
    """Strip <think> blocks, and a code fence if it encloses the whole reply."""
    reply = without_thinking(text).strip()
    fenced = _FENCED.fullmatch(reply)
    return fenced[1] if fenced else reply


def _is_cut_off(error: json.JSONDecodeError, text: str) -> bool:
    """True if the error is due to the end of the text."""
    remainder = text[error.pos : error.pos + 6]
    ends_in_literal = any(word.startswith(remainder) for word in ("true", "false", "null"))
    return ends_in_literal or error.msg.startswith("Unterminated")


def _integer(digits: str) -> int | float:
    """Parse an integer; a float if it has 20 digits or more, because int() raises beyond 4,300."""
    return int(digits) if len(digits) < 20 else float(digits)
