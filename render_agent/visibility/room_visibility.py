"""Visibility in views of a room: objects, surface coverage and close obstacles. Each pose is rendered once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from threading import Lock

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.render.renderer import Renderer
from render_agent.scans.camera import Camera, FloatArray, MapCamera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, place_facts
from render_agent.tasks.question_types import named_categories
from render_agent.visibility.coverage import Surface
from render_agent.visibility.object_visibility import ObjectSighting, ObjectVisibility

MAX_OPEN_ROOMS = 8  # rooms whose scenes stay in memory; results are kept for all rooms
NEAR_METRES = 0.5  # surface closer than this along the optical axis fills the image
NO_FACTS: Facts = Facts({}, 0.0, {})  # for scenes without ground truth

Pose = tuple[str, Camera | MapCamera]
"""Kind and camera of a view."""


@dataclass(eq=False)
class PoseVisibility:
    """What is visible from one pose."""

    areas: FloatArray  # pixels of each box, (boxes,)
    angles: FloatArray  # solid angle of each box, (boxes,) steradians
    near: float = 0.0  # share of the image that shows surface closer than NEAR_METRES
    nearest: float = float("inf")  # median depth of these pixels in metres, inf if there are none
    empty: float = 0.0  # share of the image where nothing was scanned
    covered: NDArray[np.bool_] | None = None
    """Visible points of the room's visible surface, (points,) bool; None until requested."""
    sightings: dict[int, ObjectSighting] = field(default_factory=dict)
    """Sightings requested so far, by box number."""


class RoomVisibility:
    """A scene and its ground truth. Threads may share it if they may share the renderers passed to its methods."""

    def __init__(
        self,
        scene: Scene,
        space: Callable[[], FreeSpace],
        facts: Facts,  # ground truth, with boxes in the scene's frame
        size: tuple[int, int],  # width and height of the views in pixels
    ) -> None:
        self.scene: Scene | None = scene
        self.space: Callable[[], FreeSpace] | None = space
        self.facts = facts
        self.size = size
        self.labels = [
            label.lower() for label, category_boxes in facts.boxes.items() for _ in category_boxes
        ]
        self._boxes = [box for category_boxes in facts.boxes.values() for box in category_boxes]
        self._sight: ObjectVisibility | None = None
        self._surface: Surface | None = None
        self._looks: dict[Pose, PoseVisibility] = {}
        self._building = Lock()

    def look(self, view: View, renderer: Renderer) -> PoseVisibility:
        """Return what a view shows. Each view is rendered only once."""
        assert view.camera is not None, "the pose of a target is hidden"
        pose = view.kind, view.camera
        if pose not in self._looks:
            self._looks[pose] = self._new_look(view, renderer)
        return self._looks[pose]

    def sightings(
        self, view: View, box_numbers: Sequence[int], renderer: Renderer
    ) -> list[ObjectSighting]:
        """Return the visibility of each of the boxes `box_numbers` in a view; empty for maps.

        For `around`, the four directions are added up.
        """
        camera = view.camera
        if not box_numbers or not isinstance(camera, Camera):
            return [ObjectSighting(view.number, number) for number in box_numbers]
        look = self.look(view, renderer)
        if missing_numbers := [number for number in box_numbers if number not in look.sightings]:
            new = self._objects(renderer).sightings(
                look.areas, look.angles, camera.position, missing_numbers
            )
            look.sightings |= {sighting.box: sighting for sighting in new}
        return [structs.replace(look.sightings[number], view=view.number) for number in box_numbers]

    def areas(self, view: View, renderer: Renderer) -> FloatArray:
        """Return the number of pixels of a view that show each box, (boxes,). Maps count too, targets do not."""
        if view.camera is None:
            return np.zeros(len(self._boxes))
        return self.look(view, renderer).areas

    def covered_by(self, view: View, renderer: Renderer) -> NDArray[np.bool_]:
        """Return which points of the room's visible surface a view shows, (points,) bool; none for maps."""
        surface = self._points(renderer)
        if not isinstance(view.camera, Camera):
            return np.zeros(len(surface.points), bool)
        look = self.look(view, renderer)
        if look.covered is None:  # rendered before the visible surface was computed
            frames = self._objects(renderer).cameras(view)
            masks = [surface.seen(sight.frame(pose), pose) for sight, pose in frames]
            look.covered = np.any(masks, axis=0)
        return look.covered

    def covered(self, views: Iterable[View], renderer: Renderer) -> NDArray[np.bool_]:
        """Return which points of the room's visible surface are shown by any of the views, (points,) bool."""
        mask = np.zeros(len(self._points(renderer).points), bool)
        for view in dict.fromkeys(views):
            mask |= self.covered_by(view, renderer)
        return mask

    def coverage(self, views: Iterable[View], renderer: Renderer) -> float:
        """Return the share of the room's visible surface shown by any of the views."""
        mask = self.covered(views, renderer)
        return float(mask.mean()) if len(mask) else 0.0

    def close(self) -> None:
        """Release the scene but keep the results."""
        self.scene = self.space = self._sight = None

    def open(self, scene: Callable[[], Scene], space: Callable[[], FreeSpace]) -> None:
        """Load the scene again if the room was closed."""
        if self.scene is None:
            self.scene, self.space = scene(), space

    def _new_look(self, view: View, renderer: Renderer) -> PoseVisibility:
        objects = self._objects(renderer)
        if isinstance(view.camera, MapCamera):
            return PoseVisibility(objects.map_areas(view.camera), np.zeros(len(self._boxes)))
        frames = [(sight, pose, sight.frame(pose)) for sight, pose in objects.cameras(view)]
        counts = [sight.count(frame, pose) for sight, pose, frame in frames]
        depth = np.concatenate([frame.depth.ravel() for *_, frame in frames])
        near = depth[depth < NEAR_METRES]
        look = PoseVisibility(
            sum((areas for areas, _ in counts[1:]), counts[0][0]),
            sum((angles for _, angles in counts[1:]), counts[0][1]),
            len(near) / len(depth),
            float(np.median(near)) if len(near) else float("inf"),
            float(np.isinf(depth).mean()),
        )
        if self._surface is not None:
            look.covered = np.any([self._surface.seen(f, pose) for _, pose, f in frames], axis=0)
        return look

    def _objects(self, renderer: Renderer) -> ObjectVisibility:
        """Return the `ObjectVisibility` of the room, created on first use because it sorts the whole surface."""
        with self._building:
            if self._sight is None:
                assert self.scene is not None, "the room is open"
                self._sight = ObjectVisibility(renderer, self.scene, self._boxes, self.size)
            return self._sight

    def _points(self, renderer: Renderer) -> Surface:
        if self._surface is None:
            assert self.scene is not None, "the room is open"
            assert self.space is not None, "the room is open"
            self._surface = Surface.of(self.scene, self.space(), renderer)
        return self._surface


class Rooms:
    """Rooms by name. The MAX_OPEN_ROOMS most recently used rooms keep their scenes."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self._rooms: dict[str, RoomVisibility] = {}

    def room(
        self,
        name: str,
        scene: Callable[[], Scene],
        space: Callable[[], FreeSpace],
        facts: Facts = NO_FACTS,  # ground truth in the frame of its file
    ) -> RoomVisibility:
        """Return the room of a scene, open."""
        room = self._rooms.pop(name, None)
        if room is None:
            room_scene = scene()
            room = RoomVisibility(room_scene, space, place_facts(facts, room_scene), self.size)
        room.open(scene, space)
        self._rooms[name] = room  # now the most recently used room
        for least_used in list(self._rooms.values())[:-MAX_OPEN_ROOMS]:
            least_used.close()
        return room


def named_boxes(question: Question, room: RoomVisibility) -> list[int]:
    """Return the numbers of the boxes whose categories a question names."""
    names = named_categories(question)
    return [number for number, label in enumerate(room.labels) if label in names]


def clearly_visible_boxes(
    question: Question, room: RoomVisibility, views: Iterable[View], renderer: Renderer
) -> frozenset[int]:
    """Return the numbers of the boxes that a question names and at least one of the views shows clearly."""
    box_numbers = named_boxes(question, room)
    return frozenset(
        sighting.box
        for view in dict.fromkeys(views)
        for sighting in room.sightings(view, box_numbers, renderer)
        if sighting.is_clear(room.size)
    )
