"""How replies are requested and parsed: the base class `ReplyProtocol`, and the built-in JSON protocol."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from render_agent.dialogue.answer import Permitted, permitted_answers
from render_agent.dialogue.chat import Message, Piece, assistant, message

# Re-exported for other protocols.
from render_agent.dialogue.parsing.replies import parse_reply
from render_agent.dialogue.parsing.replies import read_fields as read_fields
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import (
    Action,
    Malformed,
    ReplyForm,
    field_schemas,
    object_schema,
)

MAX_SCHEMAS = 256  # cached per process; VSI-Bench has about six


class ReplyProtocol(ABC):
    """How replies are requested and parsed.

    Protocols are stateless and do not hard-code fields: `form` provides a run's fields with their descriptions and
    schemas, and `read_fields` parses the values.
    """

    @abstractmethod
    def instructions(self, form: ReplyForm) -> str:
        """Return the part of the instructions that explains how to reply.

        Args:
            form: The fields of a reply in this run, and their wording.

        Returns:
            Text to insert into the system message.
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

    def schema(self, form: ReplyForm, question: Question | None) -> Mapping[str, Any] | None:
        """Return the JSON schema for guided decoding; None if replies are not JSON.

        Args:
            form: The fields of a reply in this run.
            question: The question, whose answers the schema permits; None for the answers to any question.
        """
        return None

    def tools(
        self, form: ReplyForm, question: Question | None
    ) -> Sequence[Mapping[str, Any]] | None:
        """Return the tools that the model may call, as in chat completions; None if replies are plain text.

        Args:
            form: The fields of a reply in this run.
            question: The question, whose answers the tools accept; None for the answers to any question.
        """
        return None

    def answer_schema(self, form: ReplyForm, question: Question) -> Mapping[str, Any] | None:
        """Return the JSON schema of a reply that gives only the answer; None if replies are not JSON.

        Args:
            form: The fields of a reply in this run.
            question: The question, which determines the form of its answer.
        """
        return None

    def answer_tools(self, form: ReplyForm, question: Question) -> list[dict[str, Any]] | None:
        """Return the tools of a reply that gives only the answer; None if replies are plain text.

        Args:
            form: The fields of a reply in this run.
            question: The question, which determines the form of its answer.
        """
        return None

    def reply_message(self, reply: str, turn: int) -> Message:
        """Return the message that sends a reply back in the history.

        Args:
            reply: The reply as returned by the engine.
            turn: Index of its turn.
        """
        return assistant(reply)

    def feedback_messages(
        self, reply: str, turn: int, feedback: Piece, pieces: Sequence[Piece], form: ReplyForm
    ) -> list[Message]:
        """Return the messages after a reply.

        Args:
            reply: The reply as returned by the engine.
            turn: Index of its turn.
            feedback: The result of the reply, and the number of the next turn.
            pieces: The next views with their captions, and notices.
            form: The fields of a reply in this run, and their wording.
        """
        return [message("user", feedback, *pieces)]


class JsonProtocol(ReplyProtocol):
    """Requests one JSON object per reply."""

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

    def schema(self, form: ReplyForm, question: Question | None) -> Mapping[str, Any] | None:
        """Return the schema of an object with the requested fields."""
        return _reply_schema(form, permitted_by(form, question))

    def answer_schema(self, form: ReplyForm, question: Question) -> Mapping[str, Any] | None:
        return answer_only(form, question)

    def read(self, text: str, question: Question, form: ReplyForm) -> Action | Malformed:
        """Parse a reply."""
        return parse_reply(text, question, form)


def answer_only(form: ReplyForm, question: Question) -> Mapping[str, Any]:
    """Return the schema of an object with only the answer to a question, which is not null."""
    permitted = permitted_answers(question.answer_form, question.options, form.wording)
    return object_schema({"answer": permitted.value_schema})


def permitted_by(form: ReplyForm, question: Question | None) -> Permitted | None:
    """Return the answers that replies to a question may give; None for those to any question."""
    if question is None:
        return None
    return permitted_answers(question.answer_form, question.options, form.wording)


@lru_cache(MAX_SCHEMAS)
def _reply_schema(form: ReplyForm, permitted: Permitted | None) -> Mapping[str, Any]:
    return object_schema(
        field_schemas(form, permitted),
        [field.name for field in form.requested_fields if field.required],
    )
