"""The protocol of scripted policies, and how one is declared under a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.options import RunConfig


class Policy(Protocol):
    """Decides what to reply; built with the list of questions, so that it can know what no prompt holds.

    It may have three methods more: `samples(request)`, where those of one request differ, gives as many replies as it
    has samples, of which the first is what `reply` returns; `believe(request)` gives the reply to a request that has a
    `probe`, and without it a policy says where it stands and that it knows of nothing; `close()` gives back what it
    holds, such as what it draws with.
    """

    def reply(self, request: Request) -> str:
        """Return the text of the reply to one request."""
        ...


@dataclass(frozen=True, slots=True)
class NamedPolicy:
    """A named policy: how it is built, and the note that must stand beside its figures.

    make: given the questions of a run, its seed and its options; None stands for no run, and a policy that
    needs scenes or annotations does without them then. note: what stands beside its figures. knows_boxes:
    whether it answers from the boxes of scenes.
    """

    make: Callable[[Sequence[Question], int, RunConfig | None], Policy]
    note: str | None = None
    knows_boxes: bool = False

    def __call__(
        self, questions: Sequence[Question], seed: int = 0, config: RunConfig | None = None
    ) -> Policy:
        """Return the policy. QuestionsError where a file of truths is in no known format."""
        return self.make(questions, seed, config)
