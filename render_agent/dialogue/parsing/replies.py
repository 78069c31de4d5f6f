"""Reads replies: plain JSON first; only otherwise several objects, tool calls as text, and slips in the syntax."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from json_repair import repair_json
from msgspec import structs

from render_agent.dialogue.answer import answer_form, answer_texts, canonical_answer
from render_agent.dialogue.chat import replace_unencodable, without_thinking
from render_agent.dialogue.parsing.tool_calls import DECODER, ToolCall, find_calls
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import (
    FIELDS,
    MAX_PLACES,
    Action,
    Malformed,
    Repeated,
    ReplyForm,
    Written,
    merge_pairs,
)
from render_agent.dialogue.wording import Wording
from render_agent.options import VIEW_TYPES
from render_agent.util.reasons import truncate

MAX_LISTED = 5  # names or answers listed in a message to the model
MAX_OBJECTS = 100  # objects with content that are considered; further ones are ignored
MAX_DEPTH = 4  # levels of wrapping, such as {"tool_calls": [{"function": {"arguments": {…}}}]}
MIN_REPEATED_CHARACTERS = 8  # shortest answer that is checked for being a copy of the instructions
# json-repair takes quadratic time on hostile text.
MAX_REPAIR_CHARACTERS = 10_000
MAX_REPAIRS = 5  # per reply
# Budget for scanning past broken objects, in characters; keeps a hostile reply under a second.
MAX_SCANNED_CHARACTERS = 100_000_000

_FENCED = re.compile(r"```(?:json)?[^\S\n]*+\n(.*)\n[^\S\n]*+```", re.DOTALL)
_OPENING = re.compile(r"\{(?=\s*(?:[\"'}“‘]|\Z))|(?<!\w)\{(?=\s*[A-Za-z_]\w*\s*[:=])")
_BRACKET = re.compile(r'(?<!\\)"(?:[^"\\]|\\.)*+"|[{}]', re.DOTALL)
_DASHES = dict.fromkeys(map(ord, "\u2212\u2010\u2011\u2012\u2013\uff0d"), "-")
# What a repair must keep: words, numbers, and signs that may change their meaning, such as "~", "!" and "<".
_WORD = re.compile(r"-?\w+|[^\w\s\"'`“”‘’.,:;+°\\(){}\[\]]")
_ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "action_input")
# Placeholders in a description of the reply format.
_PLACEHOLDER = re.compile(
    r"\s*(?:\.\.\.|…|<[^<>]{2,}>|true\W+false|(?:string|str|number|float|int|integer|bool|boolean|letter)(?:\W+\w+)?)\s*",
    re.IGNORECASE,
)
# Marks of blocks and channels: tags, <|marks|>, [MARKS] and ◁marks▷. Tags of tool calls are no drafts.
_MARK = re.compile(
    r"<(/?)([A-Za-z][\w:-]{0,40})>|<\|[^<>|]{1,60}\|?>|\[(/?)([A-Z_]{3,40})\]|◁(/?)(\w{1,40})▷"
)
_CALL_TAGS = (
    "tool_call",
    "tool_calls",
    "function_calls",
    "function_call",
    "tool",
    "function",
    "invoke",
)
_EMPTY = Action()


class JsonObject(NamedTuple):
    """A JSON object in a text, with the indices of its start and end."""

    fields: Mapping[str, Any]
    start: int = 0
    end: int = 0
    is_repaired: bool = False


Part = TypeVar("Part", bound=JsonObject | ToolCall)  # a part of a reply


def parse_reply(text: str, question: Question, form: ReplyForm) -> Action | Malformed:
    """Parse a reply. Never raises; takes time linear in the length of the text.

    If it has several objects, the last one with content counts. If they request different steps, the first of these
    counts. Objects with different answers contradict each other.
    """
    text = text.strip()
    try:
        if text[:1] == "{" and text[-1:] == "}":
            fields, end = DECODER.raw_decode(text)
            if end == len(text) and fields.keys() & _NAMES:
                return read_fields(fields, question, form)
    except json.JSONDecodeError:
        pass
    except RecursionError:
        return Malformed(form.wording("reply.nested"))
    try:
        return _parse_objects(text, question, form)
    except RecursionError:
        return Malformed(form.wording("reply.nested"))


_NAMES = frozenset(field.name for field in FIELDS if not field.is_remark)


def _parse_objects(text: str, question: Question, form: ReplyForm) -> Action | Malformed:
    """Parse a reply that is not one plain object."""
    text, calls = find_calls(without_thinking(text))
    found = find_objects(_blanked(text, calls), _NAMES, form.wording)
    if isinstance(found, Malformed) and not calls:
        return found
    objects = [JsonObject(call.arguments, call.start, call.end, is_repaired=True) for call in calls]
    objects += [] if isinstance(found, Malformed) else found
    objects = without_drafts(text, sorted(objects, key=lambda entry: entry.start))
    unwrapped = [
        entry if fields is entry.fields else JsonObject(fields, is_repaired=True)
        for entry in objects
        for fields in _unwrap(entry.fields)
    ]
    return _choose(unwrapped or objects[-1:], question, form)


def _choose(
    objects: Sequence[JsonObject], question: Question, form: ReplyForm
) -> Action | Malformed:
    """Parse the object that counts, and fill in the answer that all objects agree on."""
    say = form.wording
    candidates = (entry for entry in objects if _says_something(entry.fields, question, form))
    entries = [*islice(candidates, MAX_OBJECTS)] or [objects[-1]]
    readings = [read_fields(entry.fields, question, form) for entry in entries]
    answers: dict[str, Action | Malformed] = {}
    steps: list[tuple[object, Action | Malformed]] = []
    for reading in readings:
        if reading.answer_text is not None:
            answers.setdefault((reading.answer or reading.answer_text).strip().lower(), reading)
        step = _step(reading)
        if step is not None and (not steps or step != steps[-1][0]):
            steps.append((step, reading))
    if len(answers) > 1:
        texts = [short_json(reading.answer_text) for reading in answers.values()]
        reason = say("reply.contradictory", answers=", ".join(texts[:MAX_LISTED]))
        return Malformed(reason, readings[-1].answer_text)
    choice = steps[0][1] if steps else readings[-1]
    if isinstance(choice, Malformed):
        return choice
    answer = next(iter(answers.values()), choice)
    notes = [say("reply.several_steps", steps=len(steps))] if len(steps) > 1 else []
    return structs.replace(
        choice,
        answer=answer.answer,
        answer_text=answer.answer_text,
        confidence=answer.confidence if isinstance(answer, Action) else None,
        notes=(*choice.notes, *notes),
        repaired=any(entry.is_repaired for entry in entries),
    )


def _step(reading: Action | Malformed) -> object:
    """Return a key for what the reply would have done; None if it only states an answer."""
    if isinstance(reading, Malformed):
        return reading.reason
    if not reading.requests_step:
        return None
    return reading.without_remarks


def read_fields(
    fields: Mapping[str, Any], question: Question, form: ReplyForm
) -> Action | Malformed:
    """Convert the fields of a reply into an action, or say why they request nothing valid.

    Keys are case-insensitive, unknown keys are reported, and every field may be missing or null. Raises RecursionError
    if a value is nested too deeply.
    """
    by_key, say = merge_pairs(fields.items()), form.wording
    answer_text, answer = _answer(by_key.pop("answer", None), question, form)
    values: dict[str, Any] = {"reasoning": _as_text(by_key.pop("reasoning", None)) or ""}
    faults: list[str] = []
    remarks: list[str] = []
    has_request = answer is not None
    for field in form.fields:
        value = by_key.pop(field.name, None)
        if value is None or field.parse is None or _is_empty(value):
            continue
        result = values[field.attribute] = field.parse(value)
        if result is None:
            del values[field.attribute]
            words = say(f"reply.{field.expected}", kinds=", ".join(VIEW_TYPES), places=MAX_PLACES)
            fault = say("reply.field", field=field.name, form=words, value=short_json(value))
            (remarks if field.is_remark else faults).append(fault)
        elif not field.is_remark and result != getattr(_EMPTY, field.attribute):
            has_request = True
    notes = [*faults, *remarks]
    if answer_text is not None and answer is None:
        notes.append(say("reply.answer", answer=short_json(answer_text), form=_form(question, say)))
    unknown = [name for name, value in by_key.items() if not _is_empty(value)] if by_key else []
    if unknown:
        names = ", ".join(map(short_json, unknown[:MAX_LISTED]))
        notes.append(say("reply.unknown_fields", names=names))
        if values.get("done") and answer_text is None:
            notes.append(say("reply.unnamed_answer", form=_form(question, say)))
    is_done = values.get("done", False)
    if not (
        is_done and answer is not None
    ):  # a final answer overrides all other fields, valid or not
        if not has_request and answer_text is None and not faults:
            *others, last = (f.name for f in form.fields if f.amount is None and not f.is_remark)
            notes.insert(0, say("reply.asks_nothing", names=", ".join(others), last=last))
        if faults or not has_request or (notes and is_done):
            return Malformed("; ".join(notes), answer_text)
    return Action(**values, answer=answer, answer_text=answer_text, notes=tuple(notes))


def _form(question: Question, wording: Wording) -> str:
    return answer_form(question.answer_form, question.options, wording, question.unit)


def _answer(value: object, question: Question, form: ReplyForm) -> tuple[str | None, str | None]:
    """Return the answer as written and in canonical form; the letter in both if the schema lists words for letters."""
    text = _as_text(value)
    if text is None:
        return None, None
    if form.wording.options == "words":
        text = answer_texts(question.answer_form, question.options, form.wording).get(text, text)
    answer = None
    if not isinstance(value, Repeated):
        is_text = question.answer_form == "number" and isinstance(value, str)
        unit = question.unit if is_text else None
        answer = canonical_answer(text, question.answer_form, question.options, unit)
    return (None, None) if answer is None and _is_empty(value) else (text, answer)


def _is_empty(value: object) -> bool:
    if isinstance(value, Mapping | list):
        items = value.values() if isinstance(value, Mapping) else value
        return all(item is None for item in items)
    return value is None or (
        isinstance(value, str) and value.strip().lower() in ("", "null", "none")
    )


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    text = (
        value
        if isinstance(value, str)
        else value.digits
        if isinstance(value, Written)
        else json.dumps(value, ensure_ascii=False)
    )
    return text if text.isprintable() else replace_unencodable(text)


def _says_something(fields: Mapping[str, Any], question: Question, form: ReplyForm) -> bool:
    """Return True if any field differs from both its default and the example in the instructions.

    An object with placeholders, such as {"answer": "<letter>", "done": true}, only repeats the format.
    """
    by_key = merge_pairs(fields.items())
    by_key.pop("reasoning", None)
    if any(isinstance(value, str) and _PLACEHOLDER.fullmatch(value) for value in by_key.values()):
        return False
    answer = str(by_key.get("answer")).strip().lower()
    descriptions = (form.say("answer"), _form(question, form.wording))
    if len(answer) >= MIN_REPEATED_CHARACTERS and any(
        answer in text.lower() for text in descriptions
    ):
        return False
    for field in form.fields:
        value = by_key.get(field.name)
        if _is_empty(value) or (field in form.requested_fields and value == field.example(form)):
            continue
        if field.is_remark:
            continue
        if field.parse is None or field.parse(value) != getattr(_EMPTY, field.attribute):
            return True
    return False


def _unwrap(value: object, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the objects with reply fields: the value itself, or else those nested in it, as in tool calls and lists."""
    inner: Sequence[object] = value if isinstance(value, list) else ()
    if isinstance(value, Mapping):
        if value.keys() & _NAMES:
            yield value
        elif "properties" not in value:  # JSON schemas describe reply fields but contain none
            inner = [_decoded(key, item) for key, item in value.items() if key != "reasoning"]
    if depth < MAX_DEPTH:
        for item in inner[:MAX_OBJECTS]:
            yield from _unwrap(item, depth + 1)


def _decoded(key: str, value: object) -> object:
    """Return a value of a tool call; arguments may be JSON in a string."""
    if key not in _ARGUMENT_KEYS or not isinstance(value, str):
        return value
    try:
        return DECODER.decode(value)
    except json.JSONDecodeError:
        return value


def without_drafts(text: str, entries: Sequence[Part]) -> list[Part]:
    """Leave out what is in closed blocks or channels if there is more outside; otherwise keep the last block.

    Any marks count, such as <reasoning>…</reasoning>, [THINK]…[/THINK] and <|channel|>analysis…<|end|>.
    """
    if len(entries) < 2:
        return [*entries]
    blocks = [*_closed_blocks(_blanked(text, entries))]
    outside: list[Part] = []
    last_block: list[Part] = []
    block, following = (-1, -1), iter([*blocks, (len(text) + 1, len(text) + 1)])
    for entry in entries:
        is_new = False
        while block[1] < entry.start:
            block, is_new = next(following), True
        if entry.start < block[0]:
            outside.append(entry)
        else:
            last_block = [*([] if is_new else last_block), entry]
    return outside or last_block


def _closed_blocks(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of blocks, from the first to the last; inner blocks are part of outer ones."""
    opened: dict[str, int] = {}
    blocks: list[tuple[int, int]] = []
    separator = -1  # <|mark|> ends one part of a reply and begins the next
    for mark in _MARK.finditer(text):
        name = (mark[2] or mark[4] or mark[6] or "").lower()
        if not name:
            if separator >= 0:
                blocks.append((separator, mark.start()))
            separator = mark.start()
        elif name in _CALL_TAGS:
            continue
        elif not (mark[1] or mark[3] or mark[5]):
            opened[name] = mark.start()
        elif name in opened:
            start = opened.pop(name)
            while blocks and blocks[-1][0] > start:
                blocks.pop()
            blocks.append((start, mark.start()))
    yield from blocks


def _blanked(text: str, entries: Sequence[Part]) -> str:
    """Replace what the entries cover by spaces."""
    parts, position = [], 0
    for entry in entries:
        parts += [text[position : entry.start], " " * (entry.end - entry.start)]
        position = entry.end
    return "".join([*parts, text[position:]])


def find_objects(
    text: str, names: Collection[str], wording: Wording
) -> list[JsonObject] | Malformed:
    """Return the JSON objects in a text in order, or why there is none. Nested objects are not returned.

    An invalid object is repaired if it has one of `names` and its closing brace.
    """
    text = text.rstrip()
    if not text:
        return Malformed(wording("reply.empty"))
    objects: list[JsonObject] = []
    fault = wording("reply.single_quotes" if "{" in text else "reply.no_object")
    budget, repairs = MAX_SCANNED_CHARACTERS, MAX_REPAIRS
    opening = _OPENING.search(text)
    while opening and budget > 0:
        start = opening.start()
        try:
            fields, end = DECODER.raw_decode(text, start)
            if fields or not objects:
                objects.append(JsonObject(fields, start, end))
        except json.JSONDecodeError as error:
            budget -= error.pos  # the decoder scans from the start to count lines for each error
            fault = wording("reply.invalid", error=f"{error.msg[:1].lower()}{error.msg[1:]}")
            end = max(error.pos, start + 1)
            closing = _closing_brace(text, start) if repairs > 0 else None
            repairs -= 1
            if closing is not None:
                end = closing
                if (repaired := repair(text[start:closing], names)) is not None:
                    objects.append(JsonObject(repaired, start, closing, is_repaired=True))
            elif _is_cut_off(error, text):
                fault = wording("reply.cut_off")
                break
        except RecursionError:
            fault = wording("reply.nested")
            break
        opening = _OPENING.search(text, end)
    return objects or Malformed(fault)


def _is_cut_off(error: json.JSONDecodeError, text: str) -> bool:
    """Return True if parsing failed at the end of the text."""
    rest = text[error.pos : error.pos + 6]
    ends_in_literal = any(word.startswith(rest) for word in ("true", "false", "null"))
    return ends_in_literal or error.msg.startswith("Unterminated")


def _closing_brace(text: str, start: int) -> int | None:
    """Return the index after the brace that closes an object; None if it is not closed, or too long to be repaired."""
    depth = 0
    for match in _BRACKET.finditer(text, start, start + MAX_REPAIR_CHARACTERS):
        depth += (match[0] == "{") - (match[0] == "}")
        if depth == 0:
            return match.end()
    return None


def repair(source: str, names: Collection[str]) -> dict[str, Any] | None:
    """Return an object with slips in its syntax; None if it has none of these names or is ambiguous.

    The json-repair library guesses. A repair counts only if it keeps all words, numbers and signs in order, and makes no
    value part of a name.
    """
    source = source.translate(_DASHES)
    try:
        value = repair_json(source, return_objects=True, skip_json_loads=True, strict=True)
        fields = DECODER.decode(json.dumps(value)) if isinstance(value, dict) else {}
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        return None
    written = re.sub(r"\\[ntr]", " ", source)
    has_exact_names = fields.keys() & set(names) and not any('"' in n or "'" in n for n in fields)
    return fields if has_exact_names and [*_words(written)] == [*_words(_flat(value))] else None


def _flat(value: object) -> str:
    """Return the names and values of a JSON value as one text."""
    if isinstance(value, dict):
        return " ".join(f"{name} {_flat(item)}" for name, item in value.items())
    if isinstance(value, list):
        return " ".join(map(_flat, value))
    return value if isinstance(value, str) else json.dumps(value)


def _words(text: str) -> Iterator[str]:
    for word in _WORD.findall(text):
        yield {"none": "null"}.get(word.lower(), word.lower())


def strip_fence(text: str) -> str:
    """Strip <think> blocks, and a code fence if it encloses the whole reply."""
    reply = without_thinking(text).strip()
    match = _FENCED.fullmatch(reply)
    return match[1] if match else reply


def short_json(value: object) -> str:
    """Return a value as JSON of at most 40 characters."""
    return truncate(replace_unencodable(json.dumps(value, ensure_ascii=False)), 40)
