"""Parses replies in JSON: from the text of a reply to the action that it asks for."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from msgspec import structs

from render_agent.dialogue.chat import without_thinking
from render_agent.dialogue.parsing.fields import MAX_LISTED, read_fields, says_something, short
from render_agent.dialogue.parsing.json_objects import JsonObject, find_objects
from render_agent.dialogue.parsing.tool_calls import unwrap, xml_calls
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import FIELDS, Action, FinishReason, Malformed, ReplyForm

MAX_OBJECTS = 100  # that say something; further ones are ignored


@dataclass(frozen=True, slots=True)
class ReplyParser:
    """Parses the replies to one question.

    The last object that says something is the reply. If several objects request different steps, the first of them is
    the reply. Objects with different answers contradict each other.

    Attributes:
        question: The question, which determines the form of its answer.
        form: The fields of a reply in this run, and the wording of error messages to the model.
    """

    question: Question
    form: ReplyForm

    def parse(self, text: str, finish_reason: FinishReason = "stop") -> Action | Malformed:
        """Parse a reply. Never raises; takes time linear in the length of the text.

        Args:
            text: The reply as returned by the engine.
            finish_reason: `length` if the reply was cut off, so that its last object must not be completed.

        Returns:
            The action, or why the reply could not be parsed.
        """
        try:
            text, is_complete = without_thinking(text), finish_reason != "length"
            found = self._objects(text, is_complete=is_complete)
            if isinstance(found, Malformed) and '{\\"' in text:  # JSON inside a JSON string
                unescaped = self._objects(text.replace('\\"', '"'), is_complete=is_complete)
                found = (
                    found
                    if isinstance(unescaped, Malformed)
                    else [replace(o, is_repaired=True) for o in unescaped]
                )
            return found if isinstance(found, Malformed) else self._choose(found)
        except RecursionError:
            return Malformed(self.form.wording("reply.nested"))

    def _objects(self, text: str, *, is_complete: bool) -> list[JsonObject] | Malformed:
        """Return the objects with fields of a reply in order of the text; if there are none, the last object."""
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
        return [*_unwrapped(whole, names)] or whole[-1:]

    def _choose(self, objects: Sequence[JsonObject]) -> Action | Malformed:
        """Return the reading of the object that counts, completed by the only answer of all objects."""
        say = self.form.wording
        saying = (
            entry for entry in objects if says_something(entry.fields, self.question, self.form)
        )
        stating = [*islice(saying, MAX_OBJECTS)] or [objects[-1]]
        readings = [read_fields(entry.fields, self.question, self.form) for entry in stating]
        answers: dict[str, Action | Malformed] = {}
        steps: list[tuple[object, Action | Malformed]] = []
        for reading in readings:
            if reading.answer_text is not None:
                answers.setdefault((reading.answer or reading.answer_text).strip().lower(), reading)
            step = _step(reading)
            if step is not None and (not steps or step != steps[-1][0]):
                steps.append((step, reading))
        if len(answers) > 1:
            texts = [short(reading.answer_text) for reading in answers.values()]
            reason = say("reply.contradictory", answers=", ".join(texts[:MAX_LISTED]))
            return Malformed(reason, readings[-1].answer_text)
        chosen = steps[0][1] if steps else readings[-1]
        if isinstance(chosen, Malformed):
            return chosen
        answer = next(iter(answers.values()), chosen)
        notes = [say("reply.several_steps", steps=len(steps))] if len(steps) > 1 else []
        return structs.replace(
            chosen,
            answer=answer.answer,
            answer_text=answer.answer_text,
            notes=(*chosen.notes, *notes),
            repaired=any(entry.is_repaired for entry in stating),
        )


def _unwrapped(objects: Sequence[JsonObject], names: Collection[str]) -> Iterator[JsonObject]:
    """Yield the objects that have fields of a reply, taken out of tool calls and lists of steps."""
    for entry in objects:
        for fields in unwrap(entry.fields, names):
            is_wrapped = fields is not entry.fields
            yield JsonObject(dict(fields), entry.start, entry.is_repaired or is_wrapped)


def _step(reading: Action | Malformed) -> object:
    """Return what a reply would have done, as a key; None if it only states an answer."""
    if isinstance(reading, Malformed):
        return reading.reason
    if not (reading.moves or reading.measure or reading.done or reading.view is not None):
        return None
    return structs.replace(reading, answer=None, answer_text=None, reasoning="", notes=())
