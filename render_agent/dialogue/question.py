"""A question about one scene."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from render_agent.dialogue.answer import AnswerForm, canonical
from render_agent.scans.camera import Vector
from render_agent.scans.edits import Edit
from render_agent.util.numbers import only_number
from render_agent.util.safe_parse import Number

MAX_QUESTION_LETTERS = 100_000  # with its options, because pages and prompts repeat them


@dataclass(frozen=True, slots=True)
class StartPose:
    """The first camera of a question, as its benchmark gives it."""

    position: Vector
    """Metres, in the frame of the scan's file as it is shown."""
    yaw: Number
    """Degrees."""
    centred: bool = False
    """True if the pose is as SQA3D gives it: relative to the middle of the scan's bounds in its file, before any
    alignment, and at eye height."""


class Change(Struct, frozen=True):
    """What makes a question the counterpart of another one: a change of the room or of the words."""

    asked: str
    """The value of `--change`."""
    of: str
    """Id of the original question."""
    must: bool
    """Whether the right answer differs."""
    said: str
    """What is changed, a clause."""
    why: str
    """Why the answer must, or must not, differ, a clause."""
    before: str
    """Ground truth of the original question, by the same solver."""
    scene: str
    """Name of the scene before the edits."""
    edits: tuple[Edit, ...] = ()
    """Edits of the scene; none if only words are changed."""
    meaning: tuple[tuple[str, str], ...] = ()
    """Each letter, or word if words are asked for, with the letter of the original question."""
    factor: Annotated[float, Meta(gt=0, le=1e9)] = 1.0
    """The unit that is asked for, in that of the original question."""

    def as_before(self, answer: str | None) -> str | None:
        """Return an answer in the letters and the unit of the original question; None if it has none there."""
        if answer is None:
            return None
        meaning = dict(self.meaning)
        if not meaning:
            number = None if self.factor == 1 else only_number(answer)
            return answer if number is None else f"{float(number) * self.factor:.6g}"
        if answer in meaning:
            return meaning[answer]
        letter = canonical(answer, "letter", [*meaning])
        return None if letter is None else [*meaning.values()][ord(letter) - ord("A")]


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one scene."""

    id: str
    benchmark: str
    dataset: str
    scene: str
    type: str
    text: str
    wanted: AnswerForm
    options: tuple[str, ...] = ()
    """Choices with their letters, as the benchmark writes them ("A. left")."""
    truth: str | None = None
    """Ground truth: a letter, a number as text, or a text; None if unknown. It is never part of a prompt."""
    scan: Path | None = None
    """File of the scene; None if it was not found."""
    pruned: bool | None = None
    """Whether VSI-Bench-Debiased leaves the question out; None if its row does not tell."""
    change: Change | None = None
    """What makes it the counterpart of another question; None for a benchmark's own."""
    left_out: tuple[tuple[str, str], ...] = ()
    """Values of `--change` for which it has no counterpart, each with the reason."""
    metric: str | None = None
    """Name of its metric; None for that of its type."""
    answers: tuple[str, ...] = ()
    """Other right answers beside the truth."""
    start: StartPose | None = None
    """First camera; None for `--start`."""

    @property
    def too_long(self) -> bool:
        """Whether it is longer than any question is."""
        return len(self.text) + sum(map(len, self.options)) > MAX_QUESTION_LETTERS

    @property
    def chance_id(self) -> str:
        """The id that seeds its randomness: a counterpart has that of its original question."""
        return self.id if self.change is None else self.change.of

    @property
    def begins_apart(self) -> bool:
        """Whether its dialogue begins at a place of its own, or in a changed room, and not where the run says."""
        return self.start is not None or self.change is not None

    @property
    def unchanged(self) -> Question:
        """The same words about the room before the change."""
        return self if self.change is None else replace(self, scene=self.change.scene, change=None)
