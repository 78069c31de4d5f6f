"""What the expert would have replied in a learner's own dialogues, turn by turn: to learn from own mistakes.

    python -m training.practice RUNS MESSAGES.jsonl

RUNS is where the learner's run lies; MESSAGES gets lines as `export --format messages` writes them, with the numbers
of the messages that are to be learned (`learned`). Ross et al. 2011, "A reduction of imitation learning and structured
prediction to no-regret online learning": a learner that sees only the expert's dialogues never learns what to do
where it alone comes to.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from render_agent.dialogue.chat import Message, assistant
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.view import View
from render_agent.report.export.chat_messages import relocated
from render_agent.runs.read import RunData, find_run
from render_agent.util.whole_files import json_lines
from render_agent_lab.expert.policy import Expert, expert


class Place(NamedTuple):
    """Where a learner stood before a reply: what the expert reads of a request."""

    question_id: str
    turn: int
    views: Sequence[View]
    last: bool


class Correction(NamedTuple):
    """A dialogue that ends with a reply of the expert, and which of its messages are to be learned."""

    messages: list[Message]
    learned: list[int]


def expert_replies(state: QuestionState, knowing: Expert) -> list[str]:
    """Return what the expert replies in the place of every turn of a dialogue.

    SceneError or RenderError where the scene cannot be looked at.
    """
    views: list[View] = []
    replies = []
    for number, turn in enumerate(state.turns):
        views += turn.views
        last = number == state.max_turns - 1
        replies.append(knowing.reply(Place(state.id, number, tuple(views), last)))
    return replies


def corrections(state: QuestionState, replies: Sequence[str]) -> Iterator[Correction]:
    """Give a dialogue for every turn in which the learner did not reply as the expert does, and for the last.

    What comes before is the learner's own. Every reply of the expert is learned once: one that the learner
    gave too in the next dialogue that follows.
    """
    messages: list[Message] = []
    agreed: list[int] = []
    for number, (turn, reply) in enumerate(zip(state.turns, replies, strict=True), start=1):
        messages += turn.messages
        right, own = assistant(reply), assistant(turn.reply)
        if right != own or number == len(replies):
            yield Correction([*messages, right], [*agreed, len(messages)])
            agreed = []
        else:
            agreed.append(len(messages))
        messages.append(own)


def practise(folder: RunData, beside: Path) -> Iterator[dict[str, Any]]:
    """Give the lines of a run's dialogues, their pictures named from a folder.

    RunLogError where the run cannot be read; errors of `expert_replies`.
    """
    config = folder.config
    base = folder.path.resolve().relative_to(beside.resolve())
    begun = [state for state in folder.states if state.turns]
    with closing(expert(folder.questions, config.seed, config, strays=False)) as knowing:
        for state in begun:
            for corrected in corrections(state, expert_replies(state, knowing)):
                yield {
                    "id": state.id,
                    "run": folder.name,
                    "messages": [relocated(entry, base) for entry in corrected.messages],
                    "type": state.question.type,
                    "scene": state.question.scene,
                    "score": None,
                    "learned": corrected.learned,
                }


def main() -> None:
    """Write the corrected dialogues of the newest run, and say how many there are."""
    runs, file = map(Path, sys.argv[1:])
    lines = list(practise(find_run(runs, "recent"), file.parent))
    file.write_bytes(json_lines(lines))
    print(f"{len(lines)} dialogues in {file}")


if __name__ == "__main__":
    main()
