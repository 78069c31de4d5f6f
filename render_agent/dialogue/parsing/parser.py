"""Parses JSON replies into actions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from msgspec import structs

from render_agent.dialogue.chat import without_thinking
from render_agent.dialogue.parsing.fields import (
    MAX_LISTED,
    read_fields,
    says_something,
    short_json,
)
from render_agent.dialogue.parsing.json_objects import JsonObject, find_objects
from render_agent.dialogue.parsing.tool_calls import unwrap, xml_calls
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import FIELDS, Action, FinishReason, Malformed, ReplyForm

MAX_OBJECTS = 100  # objects with content that are considered; further ones are ignored


@dataclass(frozen=True, slots=True)
class ReplyParser:
    """Parses the replies to one question.

    The last object with content is the reply. If objects request different steps, the first of these is the reply.
    Objects with different answers contradict each other.
    """

    question: Question  # the question, which determines the form of its answer
    form: ReplyForm
    """The fields of a reply in this run, and the wording of error messages to the model."""

    def parse(self, text: str, finish_reason: FinishReason = "stop") -> Action | Malformed:
        """Parse a reply. Never raises; takes time linear in the length of the text."""
        try:
            text, is_complete = without_thinking(text), finish_reason != "length"
            objects = self._objects(text, is_complete=is_complete)
            if isinstance(objects, Malformed) and '{\\"' in text:  # JSON inside a JSON string
                inner_objects = self._objects(text.replace('\\"', '"'), is_complete=is_complete)
                objects = (
                    objects
                    if isinstance(inner_objects, Malformed)
                    else [replace(o, is_repaired=True) for o in inner_objects]
                )
            return objects if isinstance(objects, Malformed) else self._choose(objects)
        except RecursionError:
            return Malformed(self.form.wording("reply.nested"))

    def _objects(self, text: str, *, is_complete: bool) -> list[JsonObject] | Malformed:
        """Return the objects that have reply fields, in text order; if none has any, the last object."""
        names = frozenset(field.name for field in FIELDS if field.name != "reasoning")
        calls = xml_calls(text, is_complete=is_complete)
        for call, end in reversed(calls):
            text = f"{text[: call.start]}{' ' * (end - call.start)}{text[end:]}"
        objects = find_objects(text, names, self.form.wording, is_complete=is_complete)
        if isinstance(objects, Malformed):
            if not calls:
                return objects
            objects = []
        whole = sorted([*(call for call, _ in calls), *objects], key=lambda entry: entry.start)
        return [*_unwrap_objects(whole, names)] or whole[-1:]

    def _choose(self, objects: Sequence[JsonObject]) -> Action | Malformed:
        """Parse the object that counts, and fill in the answer that all objects agree on."""
        say = self.form.wording
        candidates = (
            entry for entry in objects if says_something(entry.fields, self.question, self.form)
        )
        entries = [*islice(candidates, MAX_OBJECTS)] or [objects[-1]]
        readings = [read_fields(entry.fields, self.question, self.form) for entry in entries]
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
            notes=(*choice.notes, *notes),
            repaired=any(entry.is_repaired for entry in entries),
        )


def _unwrap_objects(objects: Sequence[JsonObject], names: Collection[str]) -> Iterator[JsonObject]:
    """Yield the objects with reply fields, extracted from tool calls and lists of steps."""
    for entry in objects:
        for fields in unwrap(entry.fields, names):
            is_wrapped = fields is not entry.fields
            yield JsonObject(dict(fields), entry.start, entry.is_repaired or is_wrapped)


def _step(reading: Action | Malformed) -> object:
    """Return a key for what the reply would have done; None if it only states an answer."""
    if isinstance(reading, Malformed):
        return reading.reason
    if not (reading.requests_move or reading.measure or reading.done or reading.view is not None):
        return None
    return structs.replace(reading, answer=None, answer_text=None, reasoning="", notes=())
