"""The base class of changes (`--change`): their spelling, and the counterparts that they create for questions."""

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
from render_agent.parts.counterfactual.room import (
    ChangeableRoom,
    NoCounterpartError,
    UnsolvableError,
)
from render_agent.scans.edits import Edit
from render_agent.tasks.ground_truth import edited_facts
from render_agent.tasks.question_types import (
    is_clear,
    metric_name,
    named_categories,
    true_answer,
    type_of,
)

OTHER = "other"  # argument that selects a category that the question does not name


@dataclass(frozen=True)
class ChangePlan:
    """One value of `--change`; each kind of change is a subclass."""

    name: ClassVar[str]  # the value of `--change`, before the colon
    forms: ClassVar[Sequence[str]]
    argument: str | None = None  # the text after the colon; None if there is none

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """True if the text after the colon (None without a colon) is valid."""
        return argument is None

    @property
    def label(self) -> str:
        """The change as written in `--change`."""
        return self.name if self.argument is None else f"{self.name}:{self.argument}"

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the counterpart of a question. Raises NoCounterpartError."""
        raise NotImplementedError

    def chance(self, seed: int, *parts: str) -> random.Random:
        """Return a random generator seeded by the run's seed, the change and `parts`."""
        return random.Random("\n".join((str(seed), self.label, *parts)))

    def of_room(
        self, question: Question, room: ChangeableRoom, edits: Sequence[Edit], clause: str
    ) -> Question:
        """Return the same question about the edited room. Raises NoCounterpartError."""
        before, after, must = compare_answers(question, room, edits)
        digest = hashlib.sha256(msgspec.json.encode(edits)).hexdigest()[:8]
        change = Change(
            kind=self.label,
            original_id=question.id,
            changes_answer=must,
            description=clause,
            reason=explain_effect(question, before, after, must=must),
            original_truth=before,
            scene=question.scene,
            edits=tuple(edits),
        )
        return replace(
            question,
            id=f"{question.id}-{_plain(self.label)}",
            scene=f"{question.scene}--{_plain(self.name)}-{digest}",
            ground_truth=after,
            answers=() if must else question.answers,
            change=change,
        )


def computed_truth(question: Question, room: ChangeableRoom) -> str:
    """Return the ground truth as computed from the object boxes. Raises UnsolvableError."""
    metric = registry.load("metric", metric_name(question))()
    if question.ground_truth is None or metric.needs_judge:
        raise UnsolvableError("the question has no ground truth")
    if room.facts is None:
        raise UnsolvableError("the object boxes of the scene are unknown")
    answer = true_answer(question, room.facts)
    if answer is None:
        raise UnsolvableError("the answer cannot be computed from boxes")
    if metric.score(answer, (question.ground_truth,)) < 1:
        raise UnsolvableError("the answer computed from boxes differs from the ground truth")
    return answer


def compare_answers(
    question: Question, room: ChangeableRoom, edits: Sequence[Edit]
) -> tuple[str, str, bool]:
    """Return the ground truth before and after edits, and whether they differ. Raises NoCounterpartError."""
    before = computed_truth(question, room)
    assert room.facts is not None
    facts = edited_facts(room.facts, edits)
    after = true_answer(question, facts)
    if after is None:
        raise NoCounterpartError("the answer in the edited room cannot be computed from boxes")
    if type_of(question).needs == "every object" and after == "0":
        raise NoCounterpartError("the count would be 0, which cannot be scored")
    if not is_clear(question, facts):
        raise NoCounterpartError("the answer in the edited room is ambiguous")
    if before == after:
        return before, after, False
    metric = registry.load("metric", metric_name(question))()
    truths = (before, question.ground_truth or before, *question.answers)
    if not all(metric.are_exclusive(truth, after) for truth in truths):
        raise NoCounterpartError("one answer would be correct both before and after the edit")
    return before, after, True


def explain_effect(question: Question, before: str, after: str, *, must: bool) -> str:
    """Return a clause that says why the answer must or must not change."""
    if must:
        return f"the correct answer changes from {before} to {after}"
    subject = ", ".join(named_categories(question)) or "the room"
    return f"the change does not affect the answer about {subject}"


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "x"
