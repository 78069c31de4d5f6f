"""Visibility in the views of the questions about one scene: of the named boxes and the room's surface.

It is all that needs the scene, so that scenes can be dealt out to processes. The map counts neither
as a look at an object nor for the coverage: it shows a plan, not what things look like. `around`
counts as its four views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from render_agent.dialogue.view import View
from render_agent.render.renderer import Renderer, colourless
from render_agent.render.visibility.object_visibility import Sighting
from render_agent.render.visibility.room_visibility import NOTHING, Room
from render_agent.report.diagnosis.model import NamedBox
from render_agent.scans.camera import Camera, Vector
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts


@dataclass(frozen=True)
class ShownViews:
    """What one question names, and the views that were new in each of its turns, in order."""

    question_id: str
    named: tuple[str, ...]
    views: tuple[tuple[View, ...], ...]


class TurnVisibility(Struct, frozen=True, array_like=True):
    """What one turn's new views showed; coverage up to here, None where no scene was there."""

    coverage: float | None = None
    sightings: tuple[Sighting, ...] = ()


@dataclass(frozen=True)
class Visibility:
    """What one question's views showed of what it names."""

    boxes: tuple[NamedBox, ...] = ()
    turns: tuple[TurnVisibility, ...] = ()


def measure_scene(
    renderer: Renderer,
    scene: Scene,
    space: Callable[[], FreeSpace],
    facts: Facts | None,
    size: tuple[int, int],
    questions: Sequence[ShownViews],
) -> dict[str, Visibility]:
    """Return what the views of every question about a scene showed, by the question's id.

    space: gives its free space, where it is needed. facts: what is known of it, in its frame. size: of the pictures. RenderError where it cannot be drawn.
    """
    room, renderer = Room(scene, space, facts or NOTHING, size), colourless(renderer)
    known = boxes_by_name(facts, questions)
    return {
        shown.question_id: Visibility(named_boxes(shown, known), _turns(shown, room, renderer))
        for shown in questions
    }


def _turns(shown: ShownViews, room: Room, renderer: Renderer) -> tuple[TurnVisibility, ...]:
    """Return what the views of one question's turns showed."""
    which = [n for name in shown.named for n, label in enumerate(room.labels) if label == name]
    covered = room.covered((), renderer)
    turns = []
    for views in shown.views:
        taken = [view for view in views if view.kind != "top" and isinstance(view.camera, Camera)]
        sightings: list[Sighting] = []
        for view in taken:
            sightings += (
                structs.replace(
                    seen,
                    box=box,
                    area=round(seen.area, 1),
                    share=round(seen.share, 3),
                    distance=round(seen.distance, 3),
                )
                for box, seen in enumerate(room.sightings(view, which, renderer))
            )
            covered |= room.covered_by(view, renderer)
        coverage = round(float(covered.mean()), 4) if len(covered) else None
        turns.append(TurnVisibility(coverage, tuple(sightings)))
    return tuple(turns)


def new_views(turns: Sequence[Sequence[View]]) -> tuple[tuple[View, ...], ...]:
    """Return of the views of each turn those that no earlier turn showed."""
    known: set[int] = set()
    new = []
    for views in turns:
        new.append(tuple(view for view in views if view.number not in known))
        known.update(view.number for view in views)
    return tuple(new)


def named_boxes(shown: ShownViews, known: Mapping[str, Sequence[NamedBox]]) -> tuple[NamedBox, ...]:
    """Return the boxes that a question names; known: as `boxes_by_name` gives them."""
    return tuple(box for name in shown.named for box in known.get(name, ()))


def boxes_by_name(
    facts: Facts | None, questions: Iterable[ShownViews]
) -> dict[str, tuple[NamedBox, ...]]:
    """Return the boxes of all that questions name, in the frame of `facts`, to tenths of a millimetre."""
    boxes = {} if facts is None else {label.lower(): some for label, some in facts.boxes.items()}
    return {
        name: tuple(
            NamedBox(name, number, _rounded(box.centre), _rounded(box.size), (x, y, z))
            for number, box in enumerate(boxes.get(name, ()))
            for x, y, z in [map(_rounded, box.axes)]
        )
        for name in {name for shown in questions for name in shown.named}
    }


def _rounded(values: NDArray[np.float64]) -> Vector:
    x, y, z = (round(value, 4) for value in values.tolist())
    return x, y, z
