"""The surveyor: finds objects like the expert, measures them (`--tools measure`), and answers from the measurements.

It uses the boxes only to find objects and to point at them; every number in its answers was measured. Questions that
measurements cannot answer are guessed without looking.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import MAX_PLACES
from render_agent.engines.engine import Request
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.options import RunConfig
from render_agent.render.projection import points_under
from render_agent.scans.camera import AnyCamera, FloatArray
from render_agent.scans.scene import Scene
from render_agent.score.chance import frequent_answers
from render_agent.tasks.box_answers import DIRECTION_NAMES, side
from render_agent.tasks.question_types import base_question_type, subjects
from render_agent.visibility.measurement import (
    SceneObject,
    ScenePoint,
    camera_under,
    objects_at,
    scene_objects,
)
from render_agent.visibility.object_visibility import viewpoint
from render_agent.visibility.room_visibility import RoomVisibility
from render_agent_lab.expert.policy import Expert, expert

# Question types (without difficulty) that measurements can answer.
MEASURED_TYPES = (
    "object_abs_distance",
    "object_size_estimation",
    "object_rel_distance",
    "object_rel_direction",
)

STEP_PIXELS = 4  # stride between the pixels tried when searching a view for an object

# Letter of the option it stands for (empty if none), object to measure.
Target = tuple[str, SceneObject]

GAP_PATTERN = r"From 1 to {number}: [\d.]+ m \(([\d.]+) m between"
SIZE_PATTERN = r"Place 1: .*? measures ([\d.]+) x ([\d.]+) x ([\d.]+) m"
ANGLE_PATTERN = r"From 1 to 3: .*?\(by the objects' centres (\d+) degrees to the (left|right)\)"


class Surveyor:
    """Replies with measurements and answers from their results. `guide` finds the objects to measure."""

    def __init__(self, guide: Expert, questions: Sequence[Question]) -> None:
        self.guide = guide
        self.questions = {question.id: question for question in questions}
        self._guesses = frequent_answers(questions)

    def reply(self, request: Request) -> str:
        """Return the next move, measurement or answer.

        Raises SceneError or RenderError if the scene cannot be rendered.
        """
        question = self.questions[request.question_id]
        plan = self._plan(question)
        lines = _measurements(request.messages)
        if plan and not lines:
            move = self.guide.reply(request)
            if not json.loads(move)["done"]:
                return move
        if len(lines) < len(plan) and not request.is_last_turn:
            places = [
                self._place(question, target, request.views) for _, target in plan[len(lines)]
            ]
            return json.dumps({"reasoning": "I measure.", "measure": places})
        answer = _answer(question, plan, lines) or self._guesses[question.id]
        return json.dumps({"reasoning": "", "answer": answer, "done": True})

    def close(self) -> None:
        """Release the guide's renderer."""
        self.guide.close()

    def _plan(self, question: Question) -> list[list[Target]]:
        """Return the lists of places to measure, the first of each against the others; empty if the question is not
        answerable.
        """
        visibility, kind = self.guide.visibility, base_question_type(question)
        if (
            visibility is None
            or kind not in MEASURED_TYPES
            or question.scene not in visibility.facts
        ):
            return []
        objects_by_name: dict[str, list[SceneObject]] = {}
        for entry in scene_objects(
            visibility.facts[question.scene], visibility.scenes.get(question)
        ):
            objects_by_name.setdefault(entry.label, []).append(entry)
        named = [objects_by_name.get(name, []) for name in subjects(question)]
        if not all(named):
            return []
        if kind != "object_rel_distance":
            return [[("", candidates[0]) for candidates in named]]
        options = options_by_letter(question.options).items()
        targets = [
            (letter, entry) for letter, name in options for entry in objects_by_name.get(name, [])
        ]
        max_targets = MAX_PLACES - 1
        chunks = [
            targets[start : start + max_targets] for start in range(0, len(targets), max_targets)
        ]
        return [[("", target), *chunk] for target in named[0] for chunk in chunks]

    def _place(
        self, question: Question, target: SceneObject, views: Sequence[View]
    ) -> dict[str, int] | list[float]:
        """Return the most central pixel that shows an object, in the first view that shows it; otherwise its centre."""
        visibility = self.guide.visibility
        assert visibility is not None
        room, scene = visibility.room(question), visibility.scenes.get(question)
        objects = scene_objects(visibility.facts[question.scene], scene)
        for view in dict.fromkeys(views):
            pixels, spots = self._surface(view, room, scene)
            points = np.array([spot.point for spot in spots]).reshape(-1, 3)
            near = np.flatnonzero(
                (np.abs(target.box.local(points)) <= target.box.size / 2).all(axis=1)
            )
            owners = objects_at([spots[k] for k in near], objects, scene)
            hits = [k for k, owner in zip(near, owners, strict=True) if _is_same(owner, target)]
            if hits:
                middle = np.median(pixels[hits], axis=0)
                u, v = pixels[min(hits, key=lambda k: float(np.abs(pixels[k] - middle).sum()))]
                return {"view": view.number, "x": int(u), "y": int(v)}
        return [round(float(value), 2) for value in target.box.centre]

    def _surface(
        self, view: View, room: RoomVisibility, scene: Scene
    ) -> tuple[FloatArray, list[ScenePoint]]:
        """Return sampled pixels of a view, (n, 2) columns and rows, and the spots that they show."""
        assert self.guide.visibility is not None
        renderer, (width, height) = self.guide.visibility.renderer, room.size
        frames: dict[AnyCamera, tuple[FloatArray, NDArray[np.int32] | None]] = {}
        pixels, spots = [], []
        for v in range(0, height, STEP_PIXELS):
            for u in range(0, width, STEP_PIXELS):
                part = camera_under(view, (u, v), room.size)
                if part is None:
                    continue
                camera, size, (column, row) = part
                if camera not in frames:
                    frame = renderer.draw(scene, camera, *size)
                    rows, columns = np.indices(frame.depth.shape)
                    under = points_under(
                        camera,
                        columns.ravel(),
                        rows.ravel(),
                        frame.depth.ravel().astype(float),
                        size,
                    )
                    frames[camera] = under.reshape(*frame.depth.shape, 3), frame.primitive
                points, primitive = frames[camera]
                point = points[row, column]
                if not np.isfinite(point).all():
                    continue
                pixels.append((u, v))
                piece = None if primitive is None else int(primitive[row, column])
                spots.append(ScenePoint(point, viewpoint(camera), piece))
        return np.array(pixels).reshape(-1, 2), spots


def _is_same(first: SceneObject | None, second: SceneObject) -> bool:
    return (
        first is not None
        and first.label == second.label
        and (first.box.centre == second.box.centre).all()
    )


def _measurements(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the feedback on each measurement."""
    return [
        after["content"][0]["text"]
        for before, after in pairwise(messages)
        if before["role"] == "assistant" and '"measure"' in before["content"][0]["text"]
    ]


def _answer(
    question: Question, plan: Sequence[Sequence[Target]], lines: Sequence[str]
) -> str | None:
    """Return the answer that follows from the measurements; None if they do not determine it."""
    if not lines:
        return None
    kind = base_question_type(question)
    if kind == "object_size_estimation":
        size = re.search(SIZE_PATTERN, lines[0])
        return f"{100 * max(map(float, size.groups())):.0f}" if size else None
    if kind == "object_abs_distance":
        gap = _gap(lines[0], 2)
        return None if gap is None else str(gap)
    if kind == "object_rel_distance":
        gaps = [
            (gap, letter)
            for targets, text in zip(plan, lines, strict=False)
            for number, (letter, _) in enumerate(targets, 1)
            if (gap := _gap(text, number)) is not None
        ]
        return min(gaps)[1] if gaps else None
    if (turn := re.search(ANGLE_PATTERN, lines[0])) is None:
        return None
    degrees = float(turn[1]) * (1 if turn[2] == "left" else -1)
    name = DIRECTION_NAMES.get(question.type, side)(degrees)
    texts = options_by_letter(question.options).items()
    return next((letter for letter, text in texts if text == name), None)


def _gap(text: str, number: int) -> float | None:
    match = re.search(GAP_PATTERN.format(number=number), text)
    return float(match[1]) if match else None


def surveyor(
    questions: Sequence[Question], seed: int = 0, config: RunConfig | None = None
) -> Surveyor:
    """Return the surveyor; arguments and errors as for `expert`."""
    return Surveyor(expert(questions, seed, config, makes_wrong_turns=False), questions)


SURVEYOR = NamedPolicy(
    surveyor,
    "finds objects by their boxes and answers from measurements; tests --tools measure, not a model",
    knows_boxes=True,
)
