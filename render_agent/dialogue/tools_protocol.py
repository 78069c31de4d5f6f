"""The reply protocol of native tool calls (`--reply-protocol tools`).

Models reply with a call of one of the tools in TOOLS, whose parameters are the reply fields.
`render_agent.dialogue.parsing.tool_calls` reads and writes the calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from msgspec import structs

from render_agent.dialogue.answer import Permitted
from render_agent.dialogue.chat import (
    Message,
    Piece,
    assistant,
    escape_special_tokens,
    map_texts,
    message,
    text,
    without_thinking,
)
from render_agent.dialogue.parsing.replies import (
    MAX_LISTED,
    parse_reply,
    read_fields,
    short_json,
    without_drafts,
)
from render_agent.dialogue.parsing.tool_calls import ToolCall, find_calls, split_calls
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import (
    TOOLS,
    Action,
    Malformed,
    ReplyForm,
    field_schemas,
    merge_pairs,
    object_schema,
    tool_fields,
)
from render_agent.dialogue.reply_protocol import (
    MAX_SCHEMAS,
    ReplyProtocol,
    answer_only,
    permitted_by,
)

MOVING = ("look", "move")  # tools that show a view without any argument

REQUIRED = ("measure", "answer", "confidence", "done")  # parameters without a default


class ToolsProtocol(ReplyProtocol):
    """Requests a tool call per reply, which servers constrain themselves. A plain JSON object is read, too."""

    def instructions(self, form: ReplyForm) -> str:
        """Return a sentence that names the tools; `tools` describes their parameters."""
        return form.wording("tools.reply", names=_names(form))

    def tools(self, form: ReplyForm, question: Question | None) -> Sequence[Mapping[str, Any]]:
        """Return the tools of a run in the format of chat completions and chat templates."""
        return _tools(form, permitted_by(form, question))

    def answer_tools(self, form: ReplyForm, question: Question) -> list[dict[str, Any]]:
        """Return the tool that gives the answer, without its other parameters."""
        function = {
            "name": "answer",
            "description": form.wording("tools.answer"),
            "parameters": answer_only(form, question),
        }
        return [{"type": "function", "function": function}]

    def read(self, text: str, question: Question, form: ReplyForm) -> Action | Malformed:
        """Parse the first call of a reply; calls with different answers contradict each other."""
        say = form.wording
        reply, calls = find_calls(without_thinking(text))
        calls = without_drafts(reply, calls)
        if not calls:
            reason = say("tools.no_call", names=_names(form))
            action = parse_reply(text, question, form)
            return action if "{" in reply else Malformed(reason)
        action, *others = (_read_call(call, question, form) for call in calls)
        answers = {reading.answer: reading for reading in (action, *others) if reading.answer}
        if len(answers) > 1:
            words = ", ".join(short_json(name) for name in answers)
            return Malformed(say("reply.contradictory", answers=words), action.answer_text)
        return action

    def reply_message(self, reply: str, turn: int) -> Message:
        """Return the assistant message for a reply, with its calls as data."""
        outside, calls = split_calls(without_thinking(reply))
        if not calls:
            return assistant(reply)
        return {
            **message("assistant", text(outside)),
            "tool_calls": [
                {
                    "id": call_id(turn, number),
                    "type": "function",
                    "function": {
                        "name": call.name,
                        "arguments": map_texts(escape_special_tokens, call.arguments),
                    },
                }
                for number, call in enumerate(calls)
            ],
        }

    def feedback_messages(
        self, reply: str, turn: int, feedback: Piece, pieces: Sequence[Piece], form: ReplyForm
    ) -> list[Message]:
        """Return the results of the calls, followed by a user message with the views."""
        calls = split_calls(without_thinking(reply))[1]
        if not calls:
            return super().feedback_messages(reply, turn, feedback, pieces, form)
        results = [feedback, *[text(form.wording("tools.ignored"))] * (len(calls) - 1)]
        messages = [
            {**message("tool", result), "tool_call_id": call_id(turn, number), "name": call.name}
            for number, (call, result) in enumerate(zip(calls, results, strict=True))
        ]
        return [*messages, *([message("user", *pieces)] if pieces else [])]


def call_id(turn: int, number: int) -> str:
    """Return the id of a call: nine letters and digits, the only format that Mistral's template accepts."""
    return f"t{turn:04d}c{number:03d}"


@lru_cache(MAX_SCHEMAS)
def _tools(form: ReplyForm, permitted: Permitted | None) -> Sequence[Mapping[str, Any]]:
    fields = field_schemas(form, permitted)
    meanings = {field.name: meaning for group, meaning in form.meanings() for field in group}
    tools = []
    for name in TOOLS:
        offered = [field for field in tool_fields(name) if field.name in fields]
        if not any(field.tools[0] == name for field in offered):
            continue
        parameters = [field.name for field in offered]
        properties = {
            parameter: {**fields[parameter], "description": meanings[parameter]}
            for parameter in parameters
        }
        required_names = [parameter for parameter in parameters if parameter in REQUIRED]
        function = {
            "name": name,
            "description": form.wording(f"tools.{name}"),
            "parameters": object_schema(properties, required_names),
        }
        tools.append({"type": "function", "function": function})
    return tools


def _names(form: ReplyForm) -> str:
    return ", ".join(tool["function"]["name"] for tool in _tools(form, None))


def _read_call(call: ToolCall, question: Question, form: ReplyForm) -> Action | Malformed:
    """Parse a call. A call of `look` or `move` without arguments shows the default view."""
    say = form.wording
    declared = {tool["function"]["name"]: tool["function"] for tool in _tools(form, None)}
    if call.name not in declared:
        return Malformed(say("tools.unknown", tool=short_json(call.name), names=_names(form)))
    parameters = declared[call.name]["parameters"]["properties"]
    arguments = merge_pairs((str(name), value) for name, value in call.arguments.items())
    fields = {name: value for name, value in arguments.items() if name in parameters}
    unknown = [name for name in arguments if name not in parameters]
    note = say(
        "tools.unknown_arguments",
        tool=call.name,
        names=", ".join(map(short_json, unknown[:MAX_LISTED])),
        parameters=", ".join(parameters),
    )
    given = [name for name, value in fields.items() if value is not None]
    if not given and (unknown or call.name not in MOVING):
        missing = say("tools.missing", tool=call.name, names=", ".join(parameters))
        return Malformed(note if unknown else missing)
    if call.name in MOVING and fields.get("view") is None and "view" in parameters:
        fields["view"] = form.kinds[0]
    action = read_fields(fields, question, form)
    if not unknown:
        return action
    if isinstance(action, Malformed):
        return Malformed(f"{action.reason}; {note}", action.answer_text)
    return structs.replace(action, notes=(*action.notes, note))
