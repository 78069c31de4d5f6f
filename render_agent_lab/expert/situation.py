"""The expert's next move: looks for missing objects, or more closely at objects barely visible on the map."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from render_agent.dialogue.chat import View
from render_agent.scans.camera import Camera
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.visibility.room_visibility import RoomVisibility
from render_agent_lab.expert.derive import spot_of
from render_agent_lab.expert.floor import WalkableFloor
from render_agent_lab.expert.homes import SceneTruth
from render_agent_lab.expert.search import (
    Move,
    all_overhead,
    approach,
    explore,
    first_look,
    has_faced,
    level_camera,
    look_at_ceiling,
    standing_cameras,
)
from render_agent_lab.expert.sightings import CLEAR_MAP_SHARE, MIN_MAP_SHARE, Sightings


@dataclass(frozen=True, eq=False)
class Situation:
    """A turn of a dialogue: the named objects, and how well the views have shown the room so far."""

    names: Sequence[str]
    room: RoomVisibility
    sighted: Sightings
    views: Sequence[View]
    home: SceneTruth

    def next_counting_move(self) -> Move | None:
        """Return the next move for a counting question; None if it is time to answer.

        It first looks around, then into every room, unless the map shows every object of the category seen so far.
        """
        if not self._looked_around:
            return first_look(self.names)
        if self.shown_boxes and all(
            self.sighted.on_map[number] >= MIN_MAP_SHARE for number in self.shown_boxes
        ):
            return None
        return self._explore(self.names, within=not self.shown_boxes)

    def next_move(self) -> Move | None:
        """Return the next move to find a missing object or to see one better; None if there is nothing left to do."""
        missing = set(self.names) - {self.room.labels[number] for number in self.shown_boxes}
        if missing and not self._looked_around:
            return first_look(missing)
        if missing:
            up = look_at_ceiling(self.cameras, missing)
            return up or self._explore(missing)
        return self._level(self._look_closer())

    @cached_property
    def cameras(self) -> list[Camera]:
        """Cameras of all views except maps."""
        return standing_cameras(self.views)

    @cached_property
    def shown_boxes(self) -> list[int]:
        """Indices of the shown boxes of named categories."""
        mask, labels = self.sighted.shown, self.room.labels
        return [
            number for number, label in enumerate(labels) if label in self.names and mask[number]
        ]

    @cached_property
    def floor(self) -> WalkableFloor | None:
        """The floor in the frame of the scene, None if unknown."""
        assert self.room.scene is not None, "the room is open"
        return self.home.floor_in(self.room.scene)

    @property
    def _space(self) -> FreeSpace:
        assert self.room.space is not None, "the room is open"
        return self.room.space()

    @property
    def _looked_around(self) -> bool:
        return any(view.kind == "around" for view in self.views)

    def _explore(self, sought: Collection[str], *, within: bool = True) -> Move | None:
        """Return a step to an unseen place. Keeps looking up while searching for ceiling objects."""
        move = explore(self.views, self.floor, self._space, within=within)
        return move if all_overhead(sought) else self._level(move)

    def _level(self, move: Move | None) -> Move | None:
        return None if move is None else level_camera(self.cameras[-1], move)

    def _look_closer(self) -> Move | None:
        """Return a closer look at the object that covers least of the map; None if no object needs one.

        Only objects in the current room that no image has shown, and only once.
        """
        if not self.shown_boxes:
            return None
        smallest_box = min(
            self.shown_boxes, key=lambda number: (self.sighted.on_map[number], number)
        )
        if self.sighted.on_map[smallest_box] >= CLEAR_MAP_SHARE or self.sighted.seen[smallest_box]:
            return None
        camera = self.cameras[-1]
        spot = spot_of(
            [box for category_boxes in self.room.facts.boxes.values() for box in category_boxes][
                smallest_box
            ]
        )
        floor = self.floor
        is_elsewhere = floor is not None and floor.room_of(camera.position[:2]) != floor.room_of(
            spot
        )
        return (
            None
            if is_elsewhere or has_faced(self.cameras, spot)
            else approach(camera, spot, self._space)
        )
