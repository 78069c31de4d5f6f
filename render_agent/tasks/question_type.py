"""What the program knows about a type of question: one record per type."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from render_agent.dialogue.answer import AnswerForm
from render_agent.dialogue.question import Question
from render_agent.tasks.ground_truth import Facts

NO_MATCH = "(?!)"  # matches no text, not even an empty one

Needs = Literal["objects", "every object", "room", "video"]


def _always_clear(question: Question, facts: Facts, subjects: list[str]) -> bool:
    return True


def _no_names(question: Question) -> list[str]:
    return []


@dataclass(frozen=True, kw_only=True, eq=False)
class QuestionType:
    """A type of question. A package provides one as an entry point (`docs/extending/add-a-question-type.md`).

    Attributes:
        name: The name in question files.
        label: The name in tables and pages.
        answer_form: `letter`, `number`, `text`, or `pose` if the answer is the camera's pose at the end.
        metric: Name of the metric that scores its answers.
        task: The task that it is part of; the score of a task is the mean over its types. None if it is its own task.
        in_vsi_bench: True for the types of VSI-Bench, whose tasks make up its score.
        needs: What the views must show clearly before the question can be answered: one object of each name (`objects`),
            all of them (`every object`), the room's surface (`room`), or the recorded `video`.
        subjects: Pattern of the text, with a group for each object that the question is about.
        choices: Pattern of the text whose group is a comma-separated list of further names.
        find_names: Returns names that neither pattern finds, such as options or the landmarks of a route.
        solve: Returns the answer computed from object boxes, given the subjects: a letter, a number in the unit asked for,
            or a text; None if it is unclear. None as a whole if boxes do not determine answers.
        is_clear: Returns whether the answer would stay the same if boxes were slightly displaced.
        shows_target: True if the first turn also shows the view from the ground truth, which is a pose.
        from_sizes: True if the answer follows from the size of an object rather than from places.
        reorder: Returns the text with its objects in another order that leaves the answer as it is; None if there is
            none.
        generator: `module:function` that drafts questions about a room for `make-rooms` and `make-questions`; None if there is none.
        answer_parts: Returns the parts of an answer that generated questions should contain equally often.
    """

    name: str
    label: str
    answer_form: AnswerForm
    metric: str
    task: str | None = None
    in_vsi_bench: bool = False
    needs: Needs = "objects"
    subjects: str = NO_MATCH
    choices: str = NO_MATCH
    find_names: Callable[[Question], list[str]] = _no_names
    solve: Callable[[Question, Facts, list[str]], str | None] | None = None
    is_clear: Callable[[Question, Facts, list[str]], bool] = _always_clear
    shows_target: bool = False
    from_sizes: bool = False
    reorder: Callable[[Question, list[str]], str | None] = lambda question, subjects: None
    generator: str | None = None
    answer_parts: Callable[[str], list[str]] = lambda answer: []

    def find_subjects(self, text: str) -> list[str]:
        """Return the objects that a question is about, in the order of `subjects`; a single empty name without a match."""
        match = re.search(self.subjects, text)
        return list(match.groups()) if match else [""]

    def find_choices(self, text: str) -> list[str]:
        """Return the names in the list of `choices`."""
        match = re.search(self.choices, text)
        return match[1].split(",") if match else []

    @property
    def depends_on_places(self) -> bool:
        """True if moving the objects that a question names can change its answer."""
        return self.solve is not None and self.needs == "objects" and not self.from_sizes
