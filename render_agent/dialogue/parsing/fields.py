"""Converts the fields found by a reply protocol into an action."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from render_agent.dialogue.answer import FULL_WIDTH, answer_form, answer_texts, canonical_answer
from render_agent.dialogue.chat import replace_unencodable
from render_agent.dialogue.parsing.pairs import Repeated, merge_pairs
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import MAX_PLACES, Action, Malformed, ReplyForm
from render_agent.options import VIEW_TYPES
from render_agent.util.reasons import truncate

MAX_LISTED = 5  # names or answers listed in a message to the model

_EMPTY = Action()

# Placeholders in a description of the reply format.
_PLACEHOLDER = re.compile(
    r"\s*(?:\.\.\.|…|<[^<>]{2,}>|true\W+false|(?:string|str|number|float|int|integer|bool|boolean|letter)(?:\W+\w+)?)\s*",
    re.IGNORECASE,
)
MIN_REPEATED_CHARACTERS = 8  # shortest answer that is checked for being a copy of the instructions


def read_fields(
    fields: Mapping[str, Any], question: Question, form: ReplyForm
) -> Action | Malformed:
    """Convert the fields of a reply into an action.

    Keys are case-insensitive, unknown keys are reported, and every field may be missing or null.

    Args:
        fields: Values by key.
        question: The question, which determines the form of its answer.
        form: The fields of a reply in this run.

    Returns:
        The action, or why the fields request nothing valid.

    Raises:
        RecursionError: A value is nested too deeply.
    """
    say = form.wording
    by_key = _by_key(fields)
    answer_text, answer = _answer(by_key.get("answer"), question, form)
    values, faults = _values(by_key, form)
    notes = [*faults]
    if answer_text is not None and answer is None:
        answer_description = answer_form(question.answer_form, question.options, say, question.unit)
        notes.append(say("reply.answer", answer=short_json(answer_text), form=answer_description))
    unknown = _unknown_names(by_key, form)
    if unknown:
        excerpt = ", ".join(map(short_json, unknown[:MAX_LISTED]))
        notes.append(say("reply.unknown_fields", names=excerpt))
        if values.get("done") and answer_text is None:
            answer_description = answer_form(
                question.answer_form, question.options, say, question.unit
            )
            notes.append(say("reply.unnamed_answer", form=answer_description))
    action = Action(
        **values,
        answer=answer,
        answer_text=answer_text,
        reasoning=_as_text(by_key.get("reasoning")) or "",
        notes=tuple(notes),
    )
    if action.done and answer is not None:
        return action  # a final answer overrides all other fields, valid or not
    effective = [field for field in form.fields if field.name != "reasoning"]
    has_request = any(
        getattr(action, field.attribute) != getattr(_EMPTY, field.attribute) for field in effective
    )
    if not has_request and answer_text is None and not faults:
        *names, last = (field.name for field in effective if field.amount is None)
        notes.insert(0, say("reply.asks_nothing", names=", ".join(names), last=last))
    if faults or not has_request or (notes and action.done):
        return Malformed("; ".join(notes), answer_text)
    return action


def says_something(fields: Mapping[str, Any], question: Question, form: ReplyForm) -> bool:
    """Return True if any field differs from both its default and the example in the instructions.

    An object with placeholders, such as {"answer": "<letter>", "done": true}, only repeats the format.

    Args:
        fields: Values by key.
        question: The question, which determines the form of its answer.
        form: The fields of a reply in this run.
    """
    by_key = _by_key(fields)
    if any(
        _PLACEHOLDER.fullmatch(value)
        for name, value in by_key.items()
        if name != "reasoning" and isinstance(value, str)
    ):
        return False
    descriptions = (
        form.say("answer"),
        answer_form(question.answer_form, question.options, form.wording, question.unit),
    )
    answer = str(by_key.get("answer")).strip()
    if len(answer) >= MIN_REPEATED_CHARACTERS and any(
        answer.lower() in text.lower() for text in descriptions
    ):
        return False
    requested_fields = form.requested_fields
    for field in form.fields:
        value = by_key.get(field.name)
        if field.name == "reasoning" or _is_empty(value):
            continue
        is_example = field in requested_fields and value == field.example(form)
        is_default = field.parse is not None and field.parse(value) == getattr(
            _EMPTY, field.attribute
        )
        if not is_example and not is_default:
            return True
    return False


def _by_key(fields: Mapping[str, Any]) -> dict[str, Any]:
    return merge_pairs(
        (key.translate(FULL_WIDTH).strip().lower(), value) for key, value in fields.items()
    )


def _unknown_names(by_key: Mapping[str, Any], form: ReplyForm) -> list[str]:
    names = {field.name for field in form.fields}
    return [name for name, value in by_key.items() if name not in names and not _is_empty(value)]


def _answer(value: object, question: Question, form: ReplyForm) -> tuple[str | None, str | None]:
    """Return the answer as written and in canonical form; the letter in both if the schema lists words for letters."""
    text = _as_text(value)
    if text is not None and form.wording.options == "words":
        text = answer_texts(question.answer_form, question.options, form.wording).get(text, text)
    answer = None
    if text is not None and not isinstance(value, Repeated):
        answer = canonical_answer(text, question.answer_form, question.options, question.unit)
    return (None, None) if answer is None and _is_empty(value) else (text, answer)


def _values(by_key: Mapping[str, Any], form: ReplyForm) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes of the action, and one message per invalid field."""
    values: dict[str, Any] = {}
    faults = []
    for field in form.fields:
        value = by_key.get(field.name)
        if field.parse is None or _is_empty(value):
            continue
        result = field.parse(value)
        if result is None:
            say = form.wording
            description = say(
                f"reply.{field.expected}", kinds=", ".join(VIEW_TYPES), places=MAX_PLACES
            )
            faults.append(
                say("reply.field", field=field.name, form=description, value=short_json(value))
            )
        else:
            values[field.attribute] = result
    return values, faults


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
    return replace_unencodable(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )


def short_json(value: object) -> str:
    """Return a value as JSON of at most 40 characters."""
    return truncate(replace_unencodable(json.dumps(value, ensure_ascii=False)), 40)
