"""Groups the messages of a dialogue into exchanges, for APIs whose tool results take images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.dialogue.chat import Message, Piece


@dataclass(slots=True)
class Exchange:
    """A reply and what the model is shown next; the first exchange has no reply."""

    reply: Message | None = None
    results: list[list[Piece]] = field(default_factory=list)
    """The results of its tool calls, in order."""
    pieces: list[Piece] = field(default_factory=list)
    """The content of the user message."""

    @property
    def shown(self) -> list[Piece]:
        """The content of the results and of the user message."""
        return [*(piece for result in self.results for piece in result), *self.pieces]

    def results_of(self, count: int) -> list[list[Piece]]:
        """Return the results of this many calls, the first with the content of the user message.

        APIs require a result for every call, also for one that the reply parser did not read.
        """
        results = [*self.results, *([] for _ in range(count))][:count]
        return [[*results[0], *self.pieces], *results[1:]] if results else []


def split_exchanges(messages: Sequence[Message]) -> tuple[str, list[Exchange]]:
    """Return the text of the system messages, and the exchanges."""
    system: list[str] = []
    exchanges = [Exchange()]
    for entry in messages:
        if entry["role"] == "system":
            system += [piece["text"] for piece in entry["content"]]
        elif entry["role"] == "assistant":
            exchanges.append(Exchange(entry))
        elif entry["role"] == "tool":
            exchanges[-1].results.append(entry["content"])
        else:
            exchanges[-1].pieces += entry["content"]
    return "\n\n".join(system), exchanges


def text_of(pieces: Sequence[Piece]) -> str:
    """Return the texts of a message, one per line."""
    return "\n".join(piece["text"] for piece in pieces if piece["type"] == "text")


def texts_of(reply: Message) -> list[str]:
    """Return the text of a reply, if it has one."""
    return list(filter(str.strip, [text_of(reply["content"])]))


def calls_of(reply: Message) -> list[tuple[str, str, Any]]:
    """Return the id, the name and the arguments of each tool call of a reply."""
    calls = reply.get("tool_calls", ())
    return [(c["id"], c["function"]["name"], c["function"]["arguments"]) for c in calls]


def functions(tools: Sequence[Mapping[str, Any]], parameters: str) -> list[dict[str, Any]]:
    """Return the functions of tools, with another name for the field of their parameters."""
    return [
        {
            parameters if key == "parameters" else key: value
            for key, value in tool["function"].items()
        }
        for tool in tools
    ]
