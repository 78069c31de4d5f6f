"""What a value of `--change` is: how it is written, and the counterpart that it makes of a question."""

from __future__ import annotations

import hashlib
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import msgspec

from render_agent import registry
from render_agent.dialogue.question import Change, Question
from render_agent.scans.edits import Edit
from render_agent.tasks.counterfactual.room import ChangeableRoom, NoPair
from render_agent.tasks.exact_solver import is_clear, true_answer
from render_agent.tasks.ground_truth import edited_facts
from render_agent.tasks.mentions import named_categories
from render_agent.tasks.question_types import NUMBER_TYPES, ORDER, metric_name

UNTOLD_TYPES = ("route_planning", ORDER)
"""Types whose truth is in no box."""

OTHER = "other"
"""Stands for a category that a question does not name."""


@dataclass(frozen=True)
class ChangePlan:
    """A change as it was asked for; every kind has a subclass, which the registry names.

    argument: what stands behind the colon, None for nothing.
    """

    name: ClassVar[str]
    """Its name in `--change`, before the colon."""
    forms: ClassVar[Sequence[str]]
    """How it is written."""
    argument: str | None = None

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether this may stand behind the colon, None for no colon."""
        return argument is None

    @property
    def label(self) -> str:
        """The words it was asked for with."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the counterpart of a question. NoPair where it has none."""
        raise NotImplementedError

    def chance(self, seed: int, *parts: str) -> random.Random:
        """Return where its choices come from: the seed, the change and what it is about, nothing else."""
        return random.Random("\n".join((str(seed), self.label, *parts)))

    def of_room(
        self, question: Question, room: ChangeableRoom, edits: Sequence[Edit], clause: str
    ) -> Question:
        """Return a question about the room as it is once edited. NoPair where that asks nothing clear.

        clause: what is changed.
        """
        before, after, must = outcome(question, room, edits)
        whole = any(edit.moves_all for edit in edits)
        digest = hashlib.sha256(msgspec.json.encode(edits)).hexdigest()[:8]
        change = Change(
            asked=self.label,
            of=question.id,
            must=must,
            said=clause,
            why=why(question, before, after, must=must, whole=whole),
            before=before,
            scene=question.scene,
            edits=tuple(edits),
        )
        return replace(
            question,
            id=f"{question.id}-{_plain(self.label)}",
            scene=f"{question.scene}--{_plain(self.name)}-{digest}",
            truth=after,
            change=change,
        )


def known_truth(question: Question, room: ChangeableRoom) -> str:
    """Return what is right by the solver. NoPair where it does not tell, or tells something else than the question."""
    metric = registry.load("metric", metric_name(question))()
    if question.truth is None or metric.judged:
        raise NoPair("nobody knows the question's truth")
    if room.facts is None:
        raise NoPair("nobody knows the boxes of its scene")
    answer = true_answer(question, room.facts)
    if answer is None:
        raise NoPair("no box tells its truth")
    if metric.score(answer, (question.truth,)) < 1:
        raise NoPair("the boxes tell another truth than the question's")
    return answer


def outcome(
    question: Question, room: ChangeableRoom, edits: Sequence[Edit]
) -> tuple[str, str, bool]:
    """Return the truth before and after some edits, and whether they differ. NoPair where that is not clear.

    The way of a route and the order of a video stay what they are where the whole room is changed alike.
    """
    alike = all(edit.moves_all or edit.verb == "recolour" for edit in edits)
    if alike and question.type in UNTOLD_TYPES and question.truth is not None:
        return question.truth, question.truth, False
    before = known_truth(question, room)
    assert room.facts is not None
    facts = edited_facts(room.facts, edits)
    after = true_answer(question, facts)
    if after is None:
        raise NoPair("no box tells the truth of the changed room")
    if question.type == "object_counting" and after == "0":
        raise NoPair("none would be left, and a count of 0 cannot be scored")
    if not alike and not is_clear(question, facts):
        raise NoPair("the changed room has no clear answer")
    if before == after:
        return before, after, False
    if not registry.load("metric", metric_name(question))().are_exclusive(before, after):
        raise NoPair("the truths lie too near each other to tell answers apart")
    return before, after, True


def why(question: Question, before: str, after: str, *, must: bool, whole: bool) -> str:
    """Return why an answer must, or must not, be another one, a clause."""
    if must:
        return f"what is right becomes {after}, from {before}"
    if whole and question.type not in NUMBER_TYPES:
        return "what is asked for is the same in a room that is scaled or turned"
    named = ", ".join(named_categories(question)) or "the room"
    return f"nothing that is asked about {named} changes"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
