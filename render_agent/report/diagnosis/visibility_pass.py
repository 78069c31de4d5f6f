"""Measures the visibility of named boxes and of the room's surface in all views of one scene.

Only this step needs the scene, so scenes can be distributed over processes. Maps are ignored, because they do not show
what objects look like. `around` counts as four views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from render_agent.dialogue.chat import View
from render_agent.dialogue.state import QuestionState
from render_agent.render.renderer import Renderer
from render_agent.report.diagnosis.model import NamedBox, TurnDiagnosis
from render_agent.report.diagnosis.path import diagnose_path
from render_agent.scans.camera import Camera, Vector
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.question_types import named_categories
from render_agent.visibility.object_visibility import ObjectSighting
from render_agent.visibility.room_visibility import NO_FACTS, RoomVisibility


class Visibility(NamedTuple):
    """Known boxes of the objects that a question names, and its turns with the sightings in their new views."""

    boxes: tuple[NamedBox, ...]
    turns: Sequence[TurnDiagnosis]


def measure_scene(
    renderer: Renderer,
    scene: Scene,
    space: Callable[[], FreeSpace],
    facts: Facts | None,  # ground truth, in the scene frame
    size: tuple[int, int],  # width and height of the views in pixels
    states: Sequence[QuestionState],
) -> dict[str, Visibility]:
    """Measure the visibility for all questions about a scene."""
    room = RoomVisibility(scene, space, facts or NO_FACTS, size)
    names_by_id = {state.id: named_categories(state.question) for state in states}
    boxes = boxes_by_name(facts, {name for names in names_by_id.values() for name in names})
    return {
        state.id: Visibility(
            tuple(box for name in names_by_id[state.id] for box in boxes.get(name, ())),
            _measure_turns(state, names_by_id[state.id], room, renderer),
        )
        for state in states
    }


def _measure_turns(
    state: QuestionState, names: Sequence[str], room: RoomVisibility, renderer: Renderer
) -> list[TurnDiagnosis]:
    box_indices = [n for name in names for n, label in enumerate(room.labels) if label == name]
    mask = room.covered((), renderer)
    turns = []
    views_by_turn = new_views([turn.views for turn in state.turns])
    for turn, views in zip(diagnose_path(state.turns), views_by_turn, strict=True):
        camera_views = [v for v in views if v.kind != "top" and isinstance(v.camera, Camera)]
        sightings: list[ObjectSighting] = []
        for view in camera_views:
            sightings += (
                structs.replace(
                    sighting,
                    box=box,
                    area=round(sighting.area, 1),
                    share=round(sighting.share, 3),
                    distance=round(sighting.distance, 3),
                )
                for box, sighting in enumerate(room.sightings(view, box_indices, renderer))
            )
            mask |= room.covered_by(view, renderer)
        coverage = round(float(mask.mean()), 4) if len(mask) else None
        turns.append(replace(turn, sightings=tuple(sightings), coverage=coverage))
    return turns


def new_views(turns: Sequence[Sequence[View]]) -> tuple[tuple[View, ...], ...]:
    """Return the views of each turn that no earlier turn showed."""
    numbers: set[int] = set()
    new = []
    for views in turns:
        new.append(tuple(view for view in views if view.number not in numbers))
        numbers.update(view.number for view in views)
    return tuple(new)


def boxes_by_name(facts: Facts | None, names: Iterable[str]) -> dict[str, tuple[NamedBox, ...]]:
    """Return the boxes of the given categories in the frame of `facts`, rounded to 0.1 mm."""
    boxes = {} if facts is None else {label.lower(): group for label, group in facts.boxes.items()}
    return {
        name: tuple(
            NamedBox(name, number, _round_vector(box.centre), _round_vector(box.size), (x, y, z))
            for number, box in enumerate(boxes.get(name, ()))
            for x, y, z in [map(_round_vector, box.axes)]
        )
        for name in names
    }


def _round_vector(values: NDArray[np.float64]) -> Vector:
    x, y, z = (round(value, 4) for value in values.tolist())
    return x, y, z
