"""What a judge is shown and told: fixed texts first, then earlier views, last what is to be judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.agents.verifiers.judge.rubric import Rubric
from render_agent.dialogue import chat
from render_agent.dialogue.chat import Message
from render_agent.dialogue.reply import object_schema

YES_FORMAT = "Reply with one word: yes or no."
PAIR_FORMAT = "Reply with one letter, A or B."
PAIR_OBJECT_FORMAT = 'Reply with one JSON object: {"reason": "…", "better": "A" or "B"}.'

YES_WORDS = ("yes", "Yes", " yes", " Yes")
NO_WORDS = ("no", "No", " no", " No")
"""How a reply of yes or no may begin. Models differ in which of them they are used to."""

LETTERS = (("A", " A"), ("B", " B"))
"""How a reply may name the first picture, and the second."""


def about(
    prompts: tuple[str, str], earlier: Sequence[str], judged: Mapping[str, str], form: str
) -> list[Message]:
    """Return the messages that ask about pictures.

    prompts: the system prompt, left out where it is empty, and the user's. earlier: names of pictures.
    judged: those of the pictures that are asked about, by what stands before them. form: the sentence that says
    what a reply looks like.
    """
    system, user = prompts
    shown = {"Earlier views:": earlier} if earlier else {}
    pieces = [
        piece
        for words, names in (*shown.items(), *((key, [name]) for key, name in judged.items()))
        for piece in (chat.text(words), *map(chat.picture, names))
    ]
    message = chat.message("user", chat.text(user), *pieces, chat.text(form))
    return [chat.message("system", chat.text(system)), message] if system.strip() else [message]


def criteria_form(rubric: Rubric) -> str:
    """Return the text that lists the criteria of a rubric and the form of the reply."""
    lines = ["Criteria:"]
    for name, entry in (rubric.criteria or {}).items():
        value = "true or false" if entry.kind == "boolean" else "a number from 0 to 1"
        lines.append(f"- {name}: {entry.text} ({value})")
    names = ", ".join(f'"{name}": {{"reason": "…", "value": …}}' for name in rubric.criteria or {})
    lines.append(f"Reply with one JSON object: {{{names}}}. Reasons are one short sentence each.")
    return "\n".join(lines)


def criteria_schema(rubric: Rubric) -> dict[str, Any]:
    """Return the JSON schema of a reply to a rubric's criteria: the reason of each before its value.

    A fraction is held to tenths: a guided number may otherwise have digits without end.
    """
    reason = {"type": "string", "maxLength": rubric.longest_reason}
    values: Mapping[str, dict[str, Any]] = {
        "boolean": {"type": "boolean"},
        "fraction": {"enum": [tenth / 10 for tenth in range(11)]},
    }
    return object_schema(
        {
            name: object_schema({"reason": reason, "value": values[entry.kind]})
            for name, entry in (rubric.criteria or {}).items()
        }
    )


def pair_schema(longest_reason: int) -> dict[str, Any]:
    """Return the JSON schema of a reply that names the better of two pictures."""
    reason = {"type": "string", "maxLength": longest_reason}
    return object_schema({"reason": reason, "better": {"enum": ["A", "B"]}})
