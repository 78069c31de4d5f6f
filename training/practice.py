"""Imitation with corrections: the expert's reply in each turn of the learner's own dialogues.

    python -m training.practice RUNS MESSAGES.jsonl

RUNS contains the learner's run; MESSAGES gets lines as written by `export --format messages`, with the indices of the
messages to learn (`learned`). This is DAgger (Ross et al. 2011, "A reduction of imitation learning and structured
prediction to no-regret online learning"): a learner that only sees the expert's dialogues never learns how to act in
the states that its own mistakes lead to.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from render_agent.dialogue.chat import Message, View, assistant
from render_agent.dialogue.state import QuestionState
from render_agent.report.export.chat_messages import relocate
from render_agent.runs.read import RunData, find_run
from render_agent.util.atomic_files import json_lines
from render_agent_lab.expert.policy import Expert, expert


class LearnerState(NamedTuple):
    """The state of a learner before a reply: the part of a request that the expert reads."""

    question_id: str
    turn: int
    views: Sequence[View]
    is_last_turn: bool


class Correction(NamedTuple):
    """A dialogue that ends with a reply of the expert, and the indices of the messages to learn."""

    messages: list[Message]
    learned: list[int]


def expert_replies(state: QuestionState, policy: Expert) -> list[str]:
    """Return the expert's reply in every turn of a dialogue.

    Raises SceneError or RenderError if the scene cannot be rendered.
    """
    views: list[View] = []
    replies = []
    for number, turn in enumerate(state.turns):
        views += turn.views
        is_last = number == state.max_turns - 1
        replies.append(policy.reply(LearnerState(state.id, number, tuple(views), is_last)))
    return replies


def corrections(state: QuestionState, replies: Sequence[str]) -> Iterator[Correction]:
    """Yield a dialogue for every turn in which learner and expert disagree, and for the last turn.

    Earlier messages are the learner's. Every reply of the expert is learned once; replies on which both agree are
    learned in the next dialogue that is yielded.
    """
    messages: list[Message] = []
    agreed: list[int] = []
    for number, (turn, reply) in enumerate(zip(state.turns, replies, strict=True), start=1):
        messages += turn.messages
        expert_message, learner_message = assistant(reply), assistant(turn.reply)
        if expert_message != learner_message or number == len(replies):
            yield Correction([*messages, expert_message], [*agreed, len(messages)])
            agreed = []
        else:
            agreed.append(len(messages))
        messages.append(learner_message)


def corrected_dialogues(run: RunData, relative_to: Path) -> Iterator[dict[str, Any]]:
    """Yield the lines of a run's dialogues, with image paths relative to a folder.

    Raises RunLogError if the run cannot be read, and the errors of `expert_replies`.
    """
    config = run.config
    base = run.path.resolve().relative_to(relative_to.resolve())
    started_states = [state for state in run.states if state.turns]
    with closing(expert(run.questions, config.seed, config, makes_wrong_turns=False)) as policy:
        for state in started_states:
            for correction in corrections(state, expert_replies(state, policy)):
                yield {
                    "id": state.id,
                    "run": run.name,
                    "messages": [relocate(message, base) for message in correction.messages],
                    "type": state.question.type,
                    "scene": state.question.scene,
                    "score": None,
                    "learned": correction.learned,
                }


def main() -> None:
    """Write the corrected dialogues of the most recent run and print their number."""
    runs, file = map(Path, sys.argv[1:])
    lines = list(corrected_dialogues(find_run(runs, "recent"), file.parent))
    file.write_bytes(json_lines(lines))
    print(f"{len(lines)} dialogues in {file}")


if __name__ == "__main__":
    main()
