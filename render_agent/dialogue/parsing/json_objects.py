"""Finds JSON objects in replies, and repairs slips in their syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.chat import without_thinking
from render_agent.dialogue.parsing.json_slips import MAX_REPAIR_CHARACTERS, find_extent, repair
from render_agent.dialogue.parsing.pairs import merge_pairs
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.wording import Wording

# Budget for scanning past broken objects, in characters; keeps a hostile reply under a second.
MAX_SCANNED_CHARACTERS = 500_000_000

_FENCED = re.compile(r"```(?:json)?\s*\n(.*)\n\s*```", re.DOTALL)
_SPACE = r"[\s\ufeff\u200b\u2060]*"
_OPENING = re.compile(
    rf"[{{｛](?={_SPACE}(?:[\"}}'“”‘「＂]|//|/\*|#|\Z))|(?<!\w)[{{｛](?={_SPACE}[A-Za-z_]\w*\s*[:：=])"
)


@dataclass(frozen=True, slots=True)
class JsonObject:
    """A JSON object in a text."""

    fields: dict[str, Any]
    start: int = 0  # index of its first character
    is_repaired: bool = False  # True if its syntax was invalid


def find_objects(
    text: str, names: Collection[str], wording: Wording, *, is_complete: bool = True
) -> list[JsonObject] | Malformed:
    """Return the JSON objects in a text in order, or why there is none.

    Nested objects and objects beyond repair are not returned.
    """
    text = text.rstrip()
    if not text:
        return Malformed(wording("reply.empty"))
    decoder = json.JSONDecoder(strict=False, parse_int=_integer, object_pairs_hook=merge_pairs)
    objects: list[JsonObject] = []
    fault = wording("reply.single_quotes" if "{" in text else "reply.no_object")
    budget, repair_budget = MAX_SCANNED_CHARACTERS, MAX_REPAIR_CHARACTERS
    opening = _OPENING.search(text)
    while opening and budget > 0:
        start = opening.start()
        try:
            fields, end = decoder.raw_decode(text, start)
            if fields or not objects:
                objects.append(JsonObject(fields, start))
        except json.JSONDecodeError as error:
            end = max(error.pos, start + 1)  # text before the error belongs to the broken object
            budget -= error.pos  # the decoder scans from the start to count lines for each error
            fault = wording("reply.invalid", error=f"{error.msg[:1].lower()}{error.msg[1:]}")
            cut_off = _is_cut_off(error, text)
            if repair_budget > 0:
                extent = find_extent(text, start, repair_budget)
                repair_budget -= (extent.end if extent.is_closed else len(text)) - start
                is_whole = extent.is_closed or (
                    extent.is_whole and (is_complete or extent.end < len(text))
                )
                repaired_fields = repair(extent, names) if is_whole else None
                if repaired_fields is not None:
                    objects.append(JsonObject(repaired_fields, start, is_repaired=True))
                if repaired_fields is not None or extent.is_closed:
                    end, cut_off = extent.end, False
            if cut_off:
                fault = wording("reply.cut_off")
                break
        except RecursionError:
            fault = wording("reply.nested")
            break
        opening = _OPENING.search(text, end)
    return objects or Malformed(fault)


def strip_fence(text: str) -> str:
    """Strip <think> blocks, and a code fence if it encloses the whole reply."""
    reply = without_thinking(text).strip()
    match = _FENCED.fullmatch(reply)
    return match[1] if match else reply


def _is_cut_off(error: json.JSONDecodeError, text: str) -> bool:
    """Return True if parsing failed at the end of the text."""
    remainder = text[error.pos : error.pos + 6]
    ends_in_literal = any(word.startswith(remainder) for word in ("true", "false", "null"))
    return ends_in_literal or error.msg.startswith("Unterminated")


def _integer(digits: str) -> int | float:
    """Parse an integer; as a float from 20 digits on, because int() raises beyond 4,300."""
    return int(digits) if len(digits) < 20 else float(digits)
