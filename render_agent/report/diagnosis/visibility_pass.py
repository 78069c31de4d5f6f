"""Visibility in the views of the questions about one scene: of the named boxes and the room's surface.

It is all that needs the scene, so that scenes can be dealt out to processes. The map counts neither
as a look at an object nor for the coverage: it shows a plan, not what things look like. `around`
counts as its four views.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.view import View
from render_agent.render.renderer import Renderer, colourless
from render_agent.render.visibility.object_visibility import Sighting
from render_agent.render.visibility.room_visibility import NOTHING, Room
from render_agent.report.diagnosis.model import NamedBox, TurnDiagnosis
from render_agent.report.diagnosis.path import steps
from render_agent.scans.camera import Camera, Vector
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.mentions import named_categories


class Visibility(NamedTuple):
    """The known boxes of what a question names, and its turns with what their new views showed."""

    boxes: tuple[NamedBox, ...]
    turns: Sequence[TurnDiagnosis]


def measure_scene(
    renderer: Renderer,
    scene: Scene,
    space: Callable[[], FreeSpace],
    facts: Facts | None,
    size: tuple[int, int],
    states: Sequence[QuestionState],
) -> dict[str, Visibility]:
    """Return the visibility of every question about a scene, by its id.

    Args:
        renderer: Draws the views again.
        scene: The scene.
        space: Returns its free space.
        facts: Ground truth of the scene, in its frame.
        size: Width and height of the views in pixels.
        states: The questions with their turns.

    Raises:
        RenderError: The scene cannot be drawn.
    """
    room, renderer = Room(scene, space, facts or NOTHING, size), colourless(renderer)
    named = {state.id: named_categories(state.question) for state in states}
    known = boxes_by_name(facts, {name for names in named.values() for name in names})
    return {
        state.id: Visibility(
            tuple(box for name in named[state.id] for box in known.get(name, ())),
            _measured_turns(state, named[state.id], room, renderer),
        )
        for state in states
    }


def _measured_turns(
    state: QuestionState, named: Sequence[str], room: Room, renderer: Renderer
) -> list[TurnDiagnosis]:
    which = [n for name in named for n, label in enumerate(room.labels) if label == name]
    covered = room.covered((), renderer)
    turns = []
    views_by_turn = new_views([turn.views for turn in state.turns])
    for turn, views in zip(steps(state.turns), views_by_turn, strict=True):
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
        turns.append(replace(turn, sightings=tuple(sightings), coverage=coverage))
    return turns


def new_views(turns: Sequence[Sequence[View]]) -> tuple[tuple[View, ...], ...]:
    """Return of the views of each turn those that no earlier turn showed."""
    known: set[int] = set()
    new = []
    for views in turns:
        new.append(tuple(view for view in views if view.number not in known))
        known.update(view.number for view in views)
    return tuple(new)


def boxes_by_name(facts: Facts | None, names: Iterable[str]) -> dict[str, tuple[NamedBox, ...]]:
    """Return the boxes of some categories, in the frame of `facts`, to tenths of a millimetre."""
    boxes = {} if facts is None else {label.lower(): some for label, some in facts.boxes.items()}
    return {
        name: tuple(
            NamedBox(name, number, _rounded(box.centre), _rounded(box.size), (x, y, z))
            for number, box in enumerate(boxes.get(name, ()))
            for x, y, z in [map(_rounded, box.axes)]
        )
        for name in names
    }


def _rounded(values: NDArray[np.float64]) -> Vector:
    x, y, z = (round(value, 4) for value in values.tolist())
    return x, y, z
