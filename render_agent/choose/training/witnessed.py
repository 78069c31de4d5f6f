"""What views of a scene show of its named things and of its surface, each camera's looked at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from render_agent.camera import Camera
from render_agent.facts import Facts
from render_agent.named import kind_of, named_categories
from render_agent.render.coverage import Surface
from render_agent.render.seam import Renderer
from render_agent.render.sight import Counted, Sight, seen_well
from render_agent.scene.free_space import FreeSpace
from render_agent.scene.model import Scene
from render_agent.shown import EVERY
from render_agent.state import Question, View

Mask = NDArray[np.bool_]


class WitnessedScene:
    """A scene with its boxes and its surface; owned by the thread that owns the renderer.

    facts: what is known of it, with boxes in its frame; None where nothing is. size: of the views.
    """

    def __init__(
        self,
        scene: Scene,
        space: FreeSpace,
        facts: Facts | None,
        size: tuple[int, int],
        renderer: Renderer,
    ) -> None:
        self.scene = scene
        self.space = space
        self.size = size
        boxes = {} if facts is None else facts.boxes
        self.labels = [label.lower() for label, some in boxes.items() for _ in some]
        self._boxes = [box for some in boxes.values() for box in some]
        self._renderer = renderer
        self._looked: dict[tuple[str, Camera], tuple[Counted, Mask]] = {}

    @cached_property
    def _surface(self) -> Surface:
        return Surface.of(self.scene, self.space, self._renderer)

    @cached_property
    def _sight(self) -> Sight:
        return Sight(self._renderer, self.scene, self._boxes, self.size)

    def surface(self, views: Iterable[View]) -> Mask:
        """Return which points of the visible surface views show together, (points,)."""
        covered = np.zeros(len(self._surface.points), bool)
        for view in views:
            if isinstance(view.camera, Camera):
                covered |= self._look(view.kind, view.camera)[1]
        return covered

    def shown(self, question: Question, views: Iterable[View]) -> frozenset[str | int]:
        """Return what views show well of what a question names.

        That is the numbers of the boxes where it asks for how many there are, else their categories.
        RenderError where it cannot be drawn.
        """
        names = named_categories(question)
        which = [number for number, label in enumerate(self.labels) if label in names]
        every = kind_of(question) == EVERY
        found: set[str | int] = set()
        for view in views:
            if which and isinstance(view.camera, Camera):
                counted = self._look(view.kind, view.camera)[0]
                seen = self._sight.seen(counted, view.camera.position, which)
                well = [n for n, one in zip(which, seen, strict=True) if seen_well(one, self.size)]
                found.update(well if every else (self.labels[number] for number in well))
        return frozenset(found)

    def knows(self, question: Question) -> bool:
        """Whether it has a box of something that the question names."""
        return bool(set(named_categories(question)) & set(self.labels))

    def _look(self, kind: str, camera: Camera) -> tuple[Counted, Mask]:
        if (kind, camera) not in self._looked:
            total: Counted | None = None
            covered = np.zeros(len(self._surface.points), bool)
            for sight, each in self._sight.looks(kind, camera):
                frame = sight.frame(each)
                counted = sight.count(frame, each)
                total = counted if total is None else total + counted
                covered |= self._surface.seen(frame, each)
            assert total is not None, "a view has a camera"
            self._looked[kind, camera] = total, covered
        return self._looked[kind, camera]
