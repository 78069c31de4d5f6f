"""A question about one scene, and the target of one whose answer is a pose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from render_agent.dialogue.answer import AnswerForm, unit_of
from render_agent.dialogue.chat import View
from render_agent.scans.camera import Camera, Vector, wrap_degrees
from render_agent.scans.edits import Edit
from render_agent.util.numbers import is_number
from render_agent.util.safe_parse import Finite, NotNegative, Number, UnitInterval

MAX_QUESTION_CHARS = 100_000  # limit on text and options; bounds prompts and report pages


@dataclass(frozen=True, slots=True)
class StartPose:
    """The start pose of a question, as specified by its benchmark."""

    position: Vector
    """Metres, in the scan's frame after alignment."""
    yaw: Number
    """Degrees counter-clockwise from +x."""
    centred: bool = False
    """True for SQA3D's convention: position relative to the centre of the unaligned scan's bounds, at eye height."""


class Change(Struct, frozen=True):
    """How a counterpart differs from its original question: edits of the room, or another wording."""

    kind: str = field(name="asked")
    """Value of `--change`."""
    original_id: str = field(name="of")
    """Id of the original question."""
    changes_answer: bool = field(name="must")
    """True if the change alters the correct answer."""
    description: str = field(name="said")
    """The change, as a clause."""
    reason: str = field(name="why")
    """Why the answer changes or stays the same, as a clause."""
    original_truth: str = field(name="before")
    """Ground truth of the original question, computed by the same solver."""
    scene: str
    """Name of the scene before the edits."""
    edits: tuple[Edit, ...] = ()
    """Edits of the scene; empty if only the wording changes."""
    option_letters: tuple[tuple[str, str], ...] = field(default=(), name="meaning")
    """Pairs of an option's letter and the original question's letter for it."""
    factor: Annotated[float, Meta(gt=0, le=1e9)] = 1.0
    """Of runs of earlier versions: size of the requested unit in units of the original question."""

    def to_original(self, answer: str | None) -> str | None:
        """Convert an answer to the letters of the original question; None if that is impossible."""
        if answer is None or not self.option_letters:
            return answer
        return dict(self.option_letters).get(answer)


@dataclass(frozen=True, slots=True)
class Question:
    """One question about one scene."""

    id: str
    """Unique within a run."""
    benchmark: str
    """The value of `--benchmark`, or the stem of a question file."""
    dataset: str
    """Data set of the scene, such as `scannet`."""
    scene: str
    """Name of the scene, unique within a run."""
    type: str
    """Question type, such as `object_counting`; scores are averaged per type."""
    text: str
    """The question without its options."""
    answer_form: AnswerForm
    """Form of the answer: letter, number or text."""
    options: tuple[str, ...] = ()
    """Choices with their letters, as the benchmark writes them ("A. left")."""
    ground_truth: str | None = None
    """Ground truth: a letter, a number as text, or a text; None if unknown. Never part of a prompt."""
    scan: Path | None = None
    """File of the scene; None if it was not found."""
    pruned: bool | None = None
    """True if VSI-Bench-Debiased removed the question; None if unknown."""
    change: Change | None = None
    """Set if the question is a counterpart of another one (`--change`)."""
    left_out: tuple[tuple[str, str], ...] = ()
    """(value of `--change`, reason) for each kind of counterpart that the question lacks."""
    metric: str | None = None
    """Name of the metric; None for the default of its type."""
    answers: tuple[str, ...] = ()
    """Correct answers besides `ground_truth`."""
    start: StartPose | None = None
    """Start pose; None to use `--start`."""

    @property
    def is_too_long(self) -> bool:
        """True if text and options exceed MAX_QUESTION_CHARS."""
        return len(self.text) + sum(map(len, self.options)) > MAX_QUESTION_CHARS

    @property
    def unit(self) -> str | None:
        """The unit of a number that the text names, such as "square meters"."""
        return unit_of(self.text) if self.answer_form == "number" else None

    @property
    def is_counterpart(self) -> bool:
        """True if the question is a variant of another one, its original; it is not scored on its own."""
        return self.change is not None

    @property
    def seed_id(self) -> str:
        """The id that seeds randomness; that of the original for a counterpart."""
        return self.id if self.change is None else self.change.original_id

    @property
    def has_own_start(self) -> bool:
        """True if the dialogue starts somewhere other than `--start`: at the question's own pose, or in an edited
        room.
        """
        return self.start is not None or self.is_counterpart

    @property
    def unchanged(self) -> Question:
        """The same question about the original's scene, in which a counterpart starts."""
        return self if self.change is None else replace(self, scene=self.change.scene, change=None)


OMITTED_IF_EMPTY = ("change", "left_out")  # fields in `questions.jsonl`

# x, y, z in metres, in the frame of the scan file after alignment; yaw and pitch in degrees.
Pose = tuple[Finite, Finite, Finite, Finite, Finite]

TARGET = "target"  # kind of the view that shows the target


class TargetError(Struct, frozen=True, omit_defaults=True):
    """How far a camera is from the target of its question."""

    pose: Pose
    position: NotNegative
    """Straight distance in metres."""
    heading: NotNegative  # degrees
    pitch: NotNegative  # degrees
    path: NotNegative | None = None
    """Length of the shortest free path in metres; None if there is none."""
    overlap: UnitInterval = 0.0
    """Intersection over union of the surface that the camera and the target show."""
    view: View | None = None
    """The camera's view at the end of the dialogue."""

    def is_within(self, metres: float, degrees: float) -> bool:
        """Return True if position, heading and pitch are at most this far from the target."""
        return self.position <= metres and max(self.heading, self.pitch) <= degrees


def format_pose(pose: Sequence[float]) -> str:
    """Return a pose as text: five numbers, separated by spaces."""
    return " ".join(f"{value:.4f}".rstrip("0").rstrip(".") for value in pose)


def parse_pose(text: str) -> Pose | None:
    """Return the pose in a text; None if it is not five finite numbers."""
    words = text.replace(",", " ").split()
    values = [float(word) for word in words if is_number(word)]
    if len(words) != 5 or len(values) != 5 or not all(map(math.isfinite, values)):
        return None
    x, y, z, yaw, pitch = values
    return x, y, z, yaw, pitch


def pose_of(camera: Camera) -> Pose:
    """Return the pose of a camera, rounded to 0.1 mm and 0.0001 degrees."""
    x, y, z, yaw, pitch = (
        round(value, 4) for value in (*camera.position, camera.yaw, camera.pitch)
    )
    return x, y, z, yaw, pitch


def pose_error(pose: Pose, target: Pose) -> TargetError:
    """Return the errors of a pose that follow from the poses alone."""
    return TargetError(
        pose,
        round(math.dist(pose[:3], target[:3]), 4),
        round(abs(wrap_degrees(pose[3] - target[3])), 4),
        round(abs(pose[4] - target[4]), 4),
    )
