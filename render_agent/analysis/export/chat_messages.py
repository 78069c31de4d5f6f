"""Dialogues as chat messages, a line a question, for whoever trains on them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from render_agent.analysis.export.selection import ChosenRun
from render_agent.dialogue.chat import Message, assistant, encodable, harmless, message
from render_agent.dialogue.state import QuestionState
from render_agent.system.whole_files import json_lines


def write_messages(
    runs: Sequence[ChosenRun],
    file: Path,
    beside: Path,
    *,
    absolute: bool = False,
    thinking: bool = True,
    truth: bool = False,
) -> int:
    """Write the dialogues as JSON lines and return how many.

    Questions without a reply are left out. beside: the folder that paths of pictures start from;
    absolute: they start from the root. thinking: whether think blocks stay in the replies as they were
    logged. truth: whether a line has it, beside the messages; it and the score are those of the room as
    shown, which may be mirrored. OSError where it cannot be written.
    """

    def lines() -> Iterator[dict[str, Any]]:
        for run in runs:
            folder = run.folder.path.resolve()
            base = folder if absolute else Path(os.path.relpath(folder, beside.resolve()))
            for state, row in zip(run.states, run.rows, strict=True):
                if state.turns:
                    yield {
                        "id": state.id,
                        "run": run.name,
                        "messages": [placed(entry, base) for entry in dialogue(state, thinking)],
                        **{name: row[name] for name in ("type", "scene", "status")},
                        "answer": row["answer"],
                        "score": row["score_as_shown"],
                        **({"truth": row["truth_as_shown"]} if truth else {}),
                    }

    written = list(lines())
    file.write_bytes(json_lines(written))
    return len(written)


def dialogue(state: QuestionState, thinking: bool) -> list[Message]:
    """Return the messages as they were sent, each turn's reply after them.

    thinking: whether replies keep their think blocks, which are never fed back.
    """
    messages: list[Message] = []
    for turn in state.turns:
        reply = message("assistant", logged(turn.reply)) if thinking else assistant(turn.reply)
        messages += [*turn.messages, reply]
    return messages


def placed(entry: Message, base: Path) -> Message:
    """Return a message whose pictures lie in `base` instead of in the run folder."""
    content = [
        {**piece, "image": (base / piece["image"]).as_posix()} if "image" in piece else piece
        for piece in entry["content"]
    ]
    return {**entry, "content": content}


def logged(reply: str) -> dict[str, str]:
    """Return a reply as a piece of text with its think blocks, all else harmless to tokenizers."""
    parts = re.split("(</?think>)", reply.strip() or "(no reply)")
    kept = [encodable(part) if number % 2 else harmless(part) for number, part in enumerate(parts)]
    return {"type": "text", "text": "".join(kept)}
