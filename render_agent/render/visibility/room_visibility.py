"""The visibility of rooms, cached by view: which boxes a view shows, how much surface, and what is close in front of it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.state import Question, View
from render_agent.geometry.camera import Camera, FloatArray, MapCamera
from render_agent.questions.ground_truth import Facts, placed
from render_agent.questions.mentions import named_categories
from render_agent.render.base import Frame, Renderer
from render_agent.render.visibility.box_surfaces import BoxSurfaces
from render_agent.render.visibility.coverage import Surface
from render_agent.render.visibility.object_visibility import Counted, Seen, Sight, seen_well
from render_agent.scene.free_space.free_space import FreeSpace
from render_agent.scene.kept import Keep, anew
from render_agent.scene.model import Scene

KEPT_SURFACES = 8
"""Rooms whose surface is kept sorted by boxes; those of more are sorted again when they are looked at."""

KEPT_ROOMS = 512
"""Rooms of which anything is remembered: more than a benchmark has scenes."""

KEPT_VIEWS = 1024
"""Views of a room that are remembered: more than all questions of a scene have at a time."""

KEPT_FRAMES = 2
"""Views whose frames are kept, as one view is asked about several things in a row."""

NEAR_METRES = 0.5
"""Metres along the optical axis: what is nearer fills a picture with one surface."""

NOTHING: Facts = Facts({}, 0.0, {})
"""What is known of a scene about which nobody wrote anything down."""

CameraFrames = list[tuple[Sight, Camera, Frame]]
Pose = tuple[str, Camera]
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class ViewCoverage:
    """How much of a room's surface one view shows.

    covered: (points,) which points of it. near: the share of the picture that shows what is nearer than
    NEAR_METRES. nearest: metres to the middle one of these pixels, inf where there is none. empty: the share in
    which nothing was scanned.
    """

    covered: NDArray[np.bool_]
    near: float
    nearest: float
    empty: float


class Room:
    """A scene and what is known of it; owned by the thread that owns the renderers it is given.

    facts: with their boxes in the scene's frame. space: gives its free space. size: width and height of
    the views in pixels. keep: gives what is made of the scene and its boxes alone.
    """

    def __init__(
        self,
        scene: Scene,
        space: Callable[[], FreeSpace],
        facts: Facts,
        size: tuple[int, int],
        keep: Keep = anew,
    ) -> None:
        self.scene: Scene | None = scene
        self.space: Callable[[], FreeSpace] | None = space
        self.facts = facts
        self.size = size
        self.labels = [label.lower() for label, some in facts.boxes.items() for _ in some]
        self._boxes = [box for some in facts.boxes.values() for box in some]
        self._sight: Sight | None = None
        self._keep = keep
        self._surface: Surface | None = None
        self._recent_frames: OrderedDict[Pose, CameraFrames] = OrderedDict()
        self._counted: OrderedDict[tuple[str, Camera | MapCamera], Counted] = OrderedDict()
        self._covered: OrderedDict[Pose, bytes] = OrderedDict()
        self._near: OrderedDict[Pose, tuple[float, float, float]] = OrderedDict()

    def seen(self, view: View, which: Sequence[int], renderer: Renderer) -> set[int]:
        """Return those of the boxes, by number, that a view shows well."""
        return {
            number
            for number, seen in zip(which, self.sightings(view, which, renderer), strict=True)
            if seen_well(seen, self.size)
        }

    def sightings(self, view: View, which: Sequence[int], renderer: Renderer) -> list[Seen]:
        """Return how a view shows each of the boxes `which`, nothing of any where it is a map.

        Of a picture of four directions what they show together counts.
        """
        camera = view.camera
        if not which or not isinstance(camera, Camera):
            return [Seen(0.0, 0.0, float("inf"))] * len(which)
        counted = self._tallied(view, renderer)
        return self._objects(renderer).seen(counted, camera.position, which)

    def areas(self, view: View, renderer: Renderer) -> FloatArray:
        """Return how many pixels of a view show each box, (boxes,), also of a map."""
        return self._tallied(view, renderer).areas

    def shown(self, view: View, renderer: Renderer) -> ViewCoverage:
        """Return what a view shows of the room's surface, nothing where it is a map."""
        covered = self.covered_by(view, renderer)
        if not isinstance(view.camera, Camera):
            return ViewCoverage(covered, 0.0, float("inf"), 0.0)
        pose = view.kind, view.camera
        if pose not in self._near:
            frames = self._frames(pose, renderer)
            depth = np.concatenate([frame.depth.ravel() for *_, frame in frames])
            near = depth[depth < NEAR_METRES]
            middle = float(np.median(near)) if len(near) else float("inf")
            empty = float(np.isinf(depth).mean())
            self._near[pose] = len(near) / len(depth), middle, empty
        _touch(self._near, pose, KEPT_VIEWS)
        return ViewCoverage(covered, *self._near[pose])

    def covered_by(self, view: View, renderer: Renderer) -> NDArray[np.bool_]:
        """Return which points of the room's visible surface a view shows, none where it is a map."""
        surface = self._points(renderer)
        count = len(surface.points)
        if not isinstance(view.camera, Camera):
            return np.zeros(count, bool)
        pose = view.kind, view.camera
        if pose not in self._covered:
            covered = np.zeros(count, bool)
            for _, each, frame in self._frames(pose, renderer):
                covered |= surface.seen(frame, each)
            self._covered[pose] = np.packbits(covered).tobytes()
        _touch(self._covered, pose, KEPT_VIEWS)
        bits = np.frombuffer(self._covered[pose], np.uint8)
        return np.unpackbits(bits, count=count).astype(bool)

    def covered(self, views: Sequence[View], renderer: Renderer) -> NDArray[np.bool_]:
        """Return which points of the room's visible surface views show together."""
        together = np.zeros(len(self._points(renderer).points), bool)
        for view in dict.fromkeys(views):
            together |= self.covered_by(view, renderer)
        return together

    def coverage(self, views: Sequence[View], renderer: Renderer) -> float:
        """Return the share of the room's visible surface that views show together."""
        covered = self.covered(views, renderer)
        return float(covered.mean()) if len(covered) else 0.0

    def prepare(self, renderer: Renderer) -> None:
        """Make what depends on the scene and its boxes alone; RenderError where it cannot be drawn."""
        self._points(renderer)
        self._objects(renderer)

    def close(self) -> None:
        """Drop the scene; the results of its views are kept."""
        self.scene = self.space = self._sight = None
        self._recent_frames.clear()

    def forget(self) -> None:
        """Forget what views show; the scene's boxes and its visible surface stay known."""
        for cache in (self._recent_frames, self._counted, self._covered, self._near):
            cache.clear()
        if self._sight is not None:
            self._sight.forget()

    def open(self, scene: Callable[[], Scene], space: Callable[[], FreeSpace]) -> None:
        """Take the scene of a closed room again."""
        if self.scene is None:
            self.scene, self.space = scene(), space

    def _tallied(self, view: View, renderer: Renderer) -> Counted:
        """Return what of each box a view shows, of four directions what they show together."""
        pose = view.kind, view.camera
        if pose not in self._counted:
            if isinstance(view.camera, MapCamera):
                counted = self._objects(renderer).on_map(view.camera)
            else:
                frames = self._frames((view.kind, view.camera), renderer)
                counted, *others = (sight.count(frame, each) for sight, each, frame in frames)
                counted = sum(others, counted)
            self._counted[pose] = counted
        _touch(self._counted, pose, KEPT_VIEWS)
        return self._counted[pose]

    def _frames(self, pose: Pose, renderer: Renderer) -> CameraFrames:
        """Return the cameras of a view, each with its frame and with what counts in it."""
        if pose not in self._recent_frames:
            self._recent_frames[pose] = [
                (sight, each, sight.frame(each))
                for sight, each in self._objects(renderer).looks(*pose)
            ]
        _touch(self._recent_frames, pose, KEPT_FRAMES)
        return self._recent_frames[pose]

    def _objects(self, renderer: Renderer) -> Sight:
        """Return what looks for the boxes; made when it is first needed, as it sorts the whole surface."""
        if self._sight is None:
            assert self.scene is not None, "the room is open"
            surfaces = BoxSurfaces.of(self.scene, self._boxes, self._keep)
            self._sight = Sight(renderer, self.scene, self._boxes, self.size, surfaces=surfaces)
        return self._sight

    def _points(self, renderer: Renderer) -> Surface:
        if self._surface is None:
            assert self.scene is not None, "the room is open"
            assert self.space is not None, "the room is open"
            self._surface = Surface.of(self.scene, self.space, renderer, self._keep)
        return self._surface


class Rooms:
    """Rooms by name: KEPT_SURFACES of them hold their scene, KEPT_ROOMS what their views show."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size = size
        self._rooms: OrderedDict[str, Room] = OrderedDict()

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
        if name not in self._rooms:
            opened = scene()
            self._rooms[name] = Room(opened, space, placed(facts, opened), self.size)
        self._rooms[name].open(scene, space)
        _touch(self._rooms, name, KEPT_ROOMS)
        for least_used in list(self._rooms)[:-KEPT_SURFACES]:
            self._rooms[least_used].close()
        return self._rooms[name]

    def forget(self) -> None:
        """Forget what views show of every room."""
        for room in self._rooms.values():
            room.forget()


def _touch(kept: OrderedDict[Key, Value], key: Key, most: int) -> None:
    """Make an entry the newest, and give up the oldest of those beyond `most`."""
    kept.move_to_end(key)
    while len(kept) > most:
        kept.popitem(last=False)


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
    seen: set[int] = set()
    for view in dict.fromkeys(views):
        seen |= room.seen(view, which, renderer)
    return frozenset(seen)
