"""How replies are requested and parsed: the base class `ReplyProtocol`, and the built-in JSON protocol."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from render_agent.dialogue.answer import answer_form, canonical_answer
from render_agent.dialogue.chat import replace_unencodable, without_thinking
from render_agent.dialogue.json_object import last_object
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import (
    KINDS,
    MAX_PLACES,
    Action,
    Malformed,
    ReplyForm,
    object_schema,
)
from render_agent.util.reasons import truncate

_EMPTY = Action()


class ReplyProtocol(ABC):
    """How replies are requested and parsed.

    Protocols are stateless and do not hard-code fields: `form` provides the fields of a run with their descriptions
    and schemas, and `read_fields` parses their values.
    """

    @abstractmethod
    def instructions(self, form: ReplyForm) -> str:
        """Return the part of the instructions that explains how to reply.

        Args:
            form: The fields of a reply in this run, and their wording.

        Returns:
            Text that is inserted into the system message.
        """

    @abstractmethod
    def read(self, text: str, question: Question, form: ReplyForm) -> Action | Malformed:
        """Parse a reply. Must not raise, and must take time linear in the length of the text.

        Args:
            text: The reply as returned by the engine.
            question: The question, which determines the form of its answer.
            form: The fields of a reply in this run, and the wording of error messages to the model.

        Returns:
            The parsed reply, or why it could not be parsed.
        """

    def schema(self, form: ReplyForm) -> Mapping[str, Any] | None:
        """Return the JSON schema for guided decoding; None if replies are not JSON.

        Args:
            form: The fields of a reply in this run.
        """
        return None


class JsonProtocol(ReplyProtocol):
    """Requests one JSON object and parses the last one in a reply."""

    def instructions(self, form: ReplyForm) -> str:
        """Return an example object and one line per field or group of fields."""
        example = ""
        for field in form.requested_fields:
            comma = ",\n " if field.begins_line else ", "
            value = json.dumps(field.example(form), ensure_ascii=False)
            example += f'{comma if example else ""}"{field.name}": {value}'
        lines = [
            f"- {', '.join(field.name for field in fields)}: {meaning}"
            for fields, meaning in form.meanings()
        ]
        return form.wording("json.reply", example=f"{{{example}}}", fields="\n".join(lines))

    def schema(self, form: ReplyForm) -> Mapping[str, Any]:
        """Return the schema of an object with the requested fields."""
        fields = form.requested_fields
        return object_schema(
            {field.name: field.schema(form) for field in fields},
            [field.name for field in fields if field.required],
        )

    def read(self, text: str, question: Question, form: ReplyForm) -> Action | Malformed:
        """Parse the last complete object of a reply."""
        try:
            fields = last_object(without_thinking(text), form.wording)
            return fields if isinstance(fields, Malformed) else read_fields(fields, question, form)
        except RecursionError:
            return Malformed(form.wording("reply.nested"))


def read_fields(
    fields: Mapping[str, Any], question: Question, form: ReplyForm
) -> Action | Malformed:
    """Convert the fields of a reply into an action.

    Keys are case-insensitive, unknown keys are ignored, and every field may be missing or null.

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
    by_key = {name.strip().lower(): value for name, value in fields.items()}
    answer_text, answer = _answer(by_key.get("answer"), question)
    values, faults = _values(by_key, form)
    notes = [*faults]
    if answer_text is not None and answer is None:
        expected = answer_form(question.answer_form, question.options, say)
        notes.append(say("reply.answer", answer=_short(answer_text), form=expected))
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
    if faults or (notes and (action.done or not has_request)):
        return Malformed("; ".join(notes), answer_text)
    if not has_request:
        *names, last = (field.name for field in effective if field.amount is None)
        return Malformed(say("reply.asks_nothing", names=", ".join(names), last=last), answer_text)
    return action


def _answer(value: object, question: Question) -> tuple[str | None, str | None]:
    """Return the answer as written and in canonical form."""
    text = _as_text(value)
    answer = (
        None if text is None else canonical_answer(text, question.answer_form, question.options)
    )
    return (None, None) if answer is None and _is_empty(value) else (text, answer)


def _values(by_key: Mapping[str, Any], form: ReplyForm) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes of the action, and one message per invalid field."""
    values: dict[str, Any] = {}
    faults = []
    for field in form.fields:
        value = by_key.get(field.name)
        if field.parse is None or _is_empty(value):
            continue
        parsed = field.parse(value)
        if parsed is None:
            say = form.wording
            expected = say(f"reply.{field.expected}", kinds=", ".join(KINDS), places=MAX_PLACES)
            faults.append(say("reply.field", field=field.name, form=expected, value=_short(value)))
        else:
            values[field.attribute] = parsed
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


def _short(value: object) -> str:
    return truncate(replace_unencodable(json.dumps(value, ensure_ascii=False)), 40)
