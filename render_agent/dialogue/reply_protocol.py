"""How a reply is asked for and read: `ReplyProtocol`, and the built-in one, which asks for a JSON object."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from render_agent.dialogue.answer import answer_form, canonical
from render_agent.dialogue.chat import encodable, without_thinking
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
from render_agent.util.reasons import shortened

_EMPTY = Action()


class ReplyProtocol(ABC):
    """How a reply is asked for and read.

    A protocol has no state and knows no field by name: `form` has the fields of a run, their meanings and schemas,
    and `read_fields` parses their values.
    """

    @abstractmethod
    def instructions(self, form: ReplyForm) -> str:
        """Return the part of the instructions that shows how to reply.

        Args:
            form: What a reply may contain in the run, and its wording.
        """

    @abstractmethod
    def read(self, text: str, question: Question, form: ReplyForm) -> Action | Malformed:
        """Parse a reply. It never raises, and takes time linear in the length of the text.

        Args:
            text: The reply as the engine returned it.
            question: The question, which determines what a valid answer is.
            form: What a reply may contain in the run, and the wording of what is wrong with it.

        Returns:
            What the reply asks for, or why it cannot be understood.
        """

    def schema(self, form: ReplyForm) -> Mapping[str, Any] | None:
        """Return the JSON schema that an engine can hold replies to; None if replies are not JSON.

        Args:
            form: What a reply may contain in the run.
        """
        return None


class JsonProtocol(ReplyProtocol):
    """Asks for one JSON object, and reads the last one in a reply."""

    def instructions(self, form: ReplyForm) -> str:
        """Return an example object, and a line for every field, or for several that share a sentence."""
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
        """Return the schema of an object with the fields that the model is told about."""
        fields = form.requested_fields
        return object_schema(
            {field.name: field.schema(form) for field in fields},
            [field.name for field in fields if field.required],
        )

    def read(self, text: str, question: Question, form: ReplyForm) -> Action | Malformed:
        """Parse the last whole object of a reply."""
        try:
            fields = last_object(without_thinking(text), form.wording)
            return fields if isinstance(fields, Malformed) else read_fields(fields, question, form)
        except RecursionError:
            return Malformed(form.wording("reply.nested"))


def read_fields(
    fields: Mapping[str, Any], question: Question, form: ReplyForm
) -> Action | Malformed:
    """Return the action that the values of a reply's fields ask for; RecursionError if they are nested too deeply.

    Names are read in any case, unknown ones are ignored, and every field may be missing or null.
    """
    say = form.wording
    known = {name.strip().lower(): value for name, value in fields.items()}
    answer_text, answer = _answer(known.get("answer"), question)
    values, faults = _values(known, form)
    notes = [*faults]
    if answer_text is not None and answer is None:
        expected = answer_form(question.wanted, question.options, say)
        notes.append(say("reply.answer", answer=_short(answer_text), form=expected))
    action = Action(
        **values,
        answer=answer,
        answer_text=answer_text,
        reasoning=_as_text(known.get("reasoning")) or "",
        notes=tuple(notes),
    )
    if action.done and answer is not None:
        return action  # what else it asks for is ignored, clear or not
    asking = [field for field in form.fields if field.name != "reasoning"]
    asks = any(getattr(action, f.attribute) != getattr(_EMPTY, f.attribute) for f in asking)
    if faults or (notes and (action.done or not asks)):
        return Malformed("; ".join(notes), answer_text)
    if not asks:
        *names, last = (field.name for field in asking if field.amount is None)
        return Malformed(say("reply.asks_nothing", names=", ".join(names), last=last), answer_text)
    return action


def _answer(value: object, question: Question) -> tuple[str | None, str | None]:
    """Return an answer in the words it was given in, and in canonical form."""
    text = _as_text(value)
    answer = None if text is None else canonical(text, question.wanted, question.options)
    return (None, None) if answer is None and _empty(value) else (text, answer)


def _values(known: Mapping[str, Any], form: ReplyForm) -> tuple[dict[str, Any], list[str]]:
    """Return the attributes of the action, and a text for every field whose value is invalid."""
    values: dict[str, Any] = {}
    faults = []
    for field in form.fields:
        value = known.get(field.name)
        if field.parse is None or _empty(value):
            continue
        parsed = field.parse(value)
        if parsed is None:
            say = form.wording
            expected = say(f"reply.{field.expected}", kinds=", ".join(KINDS), places=MAX_PLACES)
            faults.append(say("reply.field", field=field.name, form=expected, value=_short(value)))
        else:
            values[field.attribute] = parsed
    return values, faults


def _empty(value: object) -> bool:
    if isinstance(value, Mapping | list):
        items = value.values() if isinstance(value, Mapping) else value
        return all(item is None for item in items)
    return value is None or (
        isinstance(value, str) and value.strip().lower() in ("", "null", "none")
    )


def _as_text(value: object) -> str | None:
    if value is None:
        return None
    return encodable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _short(value: object) -> str:
    return shortened(encodable(json.dumps(value, ensure_ascii=False)), 40)
