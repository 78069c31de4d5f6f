"""A question about one scene."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from render_agent.dialogue.answer import AnswerForm
from render_agent.dialogue.counterfactual import Change
from render_agent.scans.camera import Vector
from render_agent.util.safe_parse import Number


@dataclass(frozen=True, slots=True)
class StartPose:
    """Where the camera begins that answers a question, as its benchmark says.

    position: metres, in the frame of the scan's file as it is shown. yaw: degrees. centred: as SQA3D has it, the
    position counts from the middle of the bounds of the scan as its file has it, before any alignment, the yaw is
    one before any alignment, and the height is that of the eyes.
    """

    position: Vector
    yaw: Number
    centred: bool = False


MAX_QUESTION_LETTERS = 100_000
"""Of a question with its options: pages and prompts have them whole, again and again."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one scene.

    options keep their letters as the benchmark writes them ("A. left"). truth is a letter, a number
    as text or a text; it is None where nobody knows it, and it never reaches a prompt. scan is the
    file of the scene, None where it was not found. pruned: whether VSI-Bench-Debiased leaves the
    question out, None where the row does not say. change: what makes it the counterpart of another question,
    None of a benchmark's own. left_out: values of `--change`
    of which it has no counterpart, each with the reason. metric: its name, None for that of the type. answers: others
    that are right, beside the truth. start: where the camera begins, None for where the run says.
    """

    id: str
    benchmark: str
    dataset: str
    scene: str
    type: str
    text: str
    wanted: AnswerForm
    options: tuple[str, ...] = ()
    truth: str | None = None
    scan: Path | None = None
    pruned: bool | None = None
    change: Change | None = None
    left_out: tuple[tuple[str, str], ...] = ()
    metric: str | None = None
    answers: tuple[str, ...] = ()
    start: StartPose | None = None

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
