"""What views of a room show: boxes, surface, and what is close in front of the camera; each pose is looked at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from render_agent.dialogue.question import Question
from render_agent.dialogue.view import View
from render_agent.render.renderer import Frame, Renderer
from render_agent.render.visibility.coverage import Surface
from render_agent.render.visibility.object_visibility import Sight, Sighting
from render_agent.scans.camera import Camera, FloatArray, MapCamera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, placed
from render_agent.tasks.mentions import named_categories

MAX_OPEN_ROOMS = 8
"""Rooms whose scene stays in memory; the results of the others' views are kept."""

NEAR_METRES = 0.5
"""Metres along the optical axis: what is nearer fills a picture with one surface."""

NOTHING: Facts = Facts({}, 0.0, {})
"""The facts of a scene about which nothing is known."""

Pose = tuple[str, Camera | MapCamera]
"""Kind and camera of a view."""


@dataclass(eq=False)
class Look:
    """What one pose shows.

    areas: (boxes,) pixels of each box. angles: (boxes,) steradians. near: the share of the picture that shows what is
    nearer than NEAR_METRES. nearest: median depth of these pixels in metres, inf without any. empty: the share in
    which nothing was scanned. covered: (points,) which points of the visible surface, None until asked for.
    sightings: of the boxes that were asked for, by number.
    """

    areas: FloatArray
    angles: FloatArray
    near: float = 0.0
    nearest: float = float("inf")
    empty: float = 0.0
    covered: NDArray[np.bool_] | None = None
    sightings: dict[int, Sighting] = field(default_factory=dict)


class Room:
    """A scene and what is known of it; owned by the thread that owns the renderers it is given.

    facts: with their boxes in the scene's frame. space: gives its free space. size: width and height of
    the views in pixels.
    """

    def __init__(
        self,
        scene: Scene,
        space: Callable[[], FreeSpace],
        facts: Facts,
        size: tuple[int, int],
    ) -> None:
        self.scene: Scene | None = scene
        self.space: Callable[[], FreeSpace] | None = space
        self.facts = facts
        self.size = size
        self.labels = [label.lower() for label, some in facts.boxes.items() for _ in some]
        self._boxes = [box for some in facts.boxes.values() for box in some]
        self._sight: Sight | None = None
        self._surface: Surface | None = None
        self._looks: dict[Pose, Look] = {}

    def look(self, view: View, renderer: Renderer) -> Look:
        """Return what a view shows; it is drawn the first time."""
        pose = view.kind, view.camera
        if pose not in self._looks:
            self._looks[pose] = self._new_look(view, renderer)
        return self._looks[pose]

    def sightings(self, view: View, which: Sequence[int], renderer: Renderer) -> list[Sighting]:
        """Return how a view shows each of the boxes `which`; a map shows none.

        The pictures of four directions count together.
        """
        camera = view.camera
        if not which or not isinstance(camera, Camera):
            return [Sighting(view.number, number) for number in which]
        look = self.look(view, renderer)
        if missing := [number for number in which if number not in look.sightings]:
            found = self._objects(renderer).sightings(
                look.areas, look.angles, camera.position, missing
            )
            look.sightings |= {sighting.box: sighting for sighting in found}
        return [structs.replace(look.sightings[number], view=view.number) for number in which]

    def areas(self, view: View, renderer: Renderer) -> FloatArray:
        """Return how many pixels of a view show each box, (boxes,), also of a map."""
        return self.look(view, renderer).areas

    def covered_by(self, view: View, renderer: Renderer) -> NDArray[np.bool_]:
        """Return which points of the room's visible surface a view shows, (points,); none of a map."""
        surface = self._points(renderer)
        if not isinstance(view.camera, Camera):
            return np.zeros(len(surface.points), bool)
        look = self.look(view, renderer)
        if look.covered is None:  # it was looked at before the surface was known
            frames = self._objects(renderer).cameras(view)
            look.covered = _covered(surface, [(each, sight.frame(each)) for sight, each in frames])
        return look.covered

    def covered(self, views: Iterable[View], renderer: Renderer) -> NDArray[np.bool_]:
        """Return which points of the room's visible surface views show together."""
        together = np.zeros(len(self._points(renderer).points), bool)
        for view in dict.fromkeys(views):
            together |= self.covered_by(view, renderer)
        return together

    def coverage(self, views: Iterable[View], renderer: Renderer) -> float:
        """Return the share of the room's visible surface that views show together."""
        covered = self.covered(views, renderer)
        return float(covered.mean()) if len(covered) else 0.0

    def close(self) -> None:
        """Drop the scene; the results of its views are kept."""
        self.scene = self.space = self._sight = None

    def open(self, scene: Callable[[], Scene], space: Callable[[], FreeSpace]) -> None:
        """Take the scene of a closed room again."""
        if self.scene is None:
            self.scene, self.space = scene(), space

    def _new_look(self, view: View, renderer: Renderer) -> Look:
        objects = self._objects(renderer)
        if isinstance(view.camera, MapCamera):
            return Look(objects.map_areas(view.camera), np.zeros(len(self._boxes)))
        frames = [(sight, each, sight.frame(each)) for sight, each in objects.cameras(view)]
        counted = [sight.count(frame, each) for sight, each, frame in frames]
        depth = np.concatenate([frame.depth.ravel() for *_, frame in frames])
        near = depth[depth < NEAR_METRES]
        look = Look(
            sum((areas for areas, _ in counted[1:]), counted[0][0]),
            sum((angles for _, angles in counted[1:]), counted[0][1]),
            len(near) / len(depth),
            float(np.median(near)) if len(near) else float("inf"),
            float(np.isinf(depth).mean()),
        )
        if self._surface is not None:
            look.covered = np.any(
                [self._surface.seen(f, camera) for _, camera, f in frames], axis=0
            )
        return look

    def _objects(self, renderer: Renderer) -> Sight:
        """Return what looks for the boxes; made when it is first needed, as it sorts the whole surface."""
        if self._sight is None:
            assert self.scene is not None, "the room is open"
            self._sight = Sight(renderer, self.scene, self._boxes, self.size)
        return self._sight

    def _points(self, renderer: Renderer) -> Surface:
        if self._surface is None:
            assert self.scene is not None, "the room is open"
            assert self.space is not None, "the room is open"
            self._surface = Surface.of(self.scene, self.space(), renderer)
        return self._surface


def _covered(surface: Surface, frames: Iterable[tuple[Camera, Frame]]) -> NDArray[np.bool_]:
    covered = np.zeros(len(surface.points), bool)
    for camera, frame in frames:
        covered |= surface.seen(frame, camera)
    return covered


class Rooms:
    """Rooms by name; the MAX_OPEN_ROOMS that were used last hold their scene."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self._rooms: dict[str, Room] = {}

    def room(
        self,
        name: str,
        scene: Callable[[], Scene],
        space: Callable[[], FreeSpace],
        facts: Facts = NOTHING,
    ) -> Room:
        """Return the room of a scene, opened.

        facts: as files have them, their boxes not yet placed. SceneError where its scan cannot be read.
        """
        room = self._rooms.pop(name, None)
        if room is None:
            opened = scene()
            room = Room(opened, space, placed(facts, opened), self.size)
        room.open(scene, space)
        self._rooms[name] = room  # the last one now
        for least_used in list(self._rooms.values())[:-MAX_OPEN_ROOMS]:
            least_used.close()
        return room


def named_boxes(question: Question, room: Room) -> list[int]:
    """Return the numbers of the room's boxes that a question names."""
    names = named_categories(question)
    return [number for number, label in enumerate(room.labels) if label in names]


def boxes_seen(
    question: Question, room: Room, views: Iterable[View], renderer: Renderer
) -> frozenset[int]:
    """Return the numbers of the boxes that a question names and one of some views shows well.

    RenderError where a view cannot be drawn.
    """
    which = named_boxes(question, room)
    return frozenset(
        sighting.box
        for view in dict.fromkeys(views)
        for sighting in room.sightings(view, which, renderer)
        if sighting.well(room.size)
    )
