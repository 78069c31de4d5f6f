"""Rooms remember what their views show, also those that were closed in between."""

from collections import Counter

import numpy as np
import pytest
from factories.scenes import room, write_ply

from render_agent.dialogue.view import View
from render_agent.render.around import camera_ahead, cameras_of, cell_size
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.visibility import room_visibility as looks
from render_agent.render.visibility.coverage import Surface
from render_agent.render.visibility.room_visibility import NEAR_METRES, Room, Rooms
from render_agent.scans.boxes import upright
from render_agent.scans.camera import Camera, MapCamera, vertical_from_horizontal
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.ground_truth import Facts

SIZE = (80, 60)
FIELD = vertical_from_horizontal(75, *SIZE)
LAMP, PLANT = upright((4, 0.3, 0), (4.6, 1, 0.8)), upright((0.3, 3, 0), (1, 3.7, 1.2))
FACTS = Facts({"Lamp": 1, "plant": 1}, 20.0, {"Lamp": [LAMP], "plant": [PLANT]})
CELL = cell_size(SIZE)
STAND = Camera((2.5, 2.0, 1.5), 30.0, -10.0, FIELD)
VIEWS = [
    View(0, "ego", "", STAND),
    View(1, "ego", "", STAND.looking_at(LAMP.centre)),
    View(2, "around", "", camera_ahead(STAND, SIZE)),
    View(3, "top", "", MapCamera((2.5, 2.0), 2.0, 0.05)),
    View(4, "ego", "", STAND.at((2.5, 3.7, 1.5)).turned(60)),
]


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    return load_scene(write_ply(tmp_path_factory.mktemp("room") / "room.ply", *room()))


@pytest.fixture(scope="module")
def space(scene):
    return FreeSpace.of(scene)


class Counting(Rasteriser):
    """Counts what it draws."""

    def __init__(self):
        super().__init__(1)
        self.drawings = Counter()

    @property
    def drawn(self):
        return self.drawings.total()

    def draw(self, scene, *given):
        self.drawings[len(scene.points), *given] += 1
        return super().draw(scene, *given)


def told(room, renderer):
    """Return all that a room tells of the views."""
    found = []
    for view in VIEWS:
        covered, look = room.covered_by(view, renderer), room.look(view, renderer)
        found.append((covered.tobytes(), look.near, look.nearest, look.empty))
        found.append(tuple(room.sightings(view, [1, 0], renderer)))
    return [*found, room.coverage(VIEWS, renderer)]


def test_a_view_is_drawn_once_and_then_remembered(scene, space):
    renderer = Counting()
    made = Room(scene, lambda: space, FACTS, SIZE)
    assert made.labels == ["lamp", "plant"]
    first = told(made, renderer)
    drawn = renderer.drawn
    assert told(made, renderer) == first
    assert renderer.drawn == drawn
    shown = [number for number, *_, width, _ in renderer.drawings if width in (SIZE[0], CELL[0])]
    # three ego views, each of the four directions, and the map
    assert shown.count(len(scene.points)) == 3 + 4 + 1


def test_what_a_view_shows_is_in_its_frame(scene, space):
    renderer = Rasteriser(1)
    made = Room(scene, lambda: space, FACTS, SIZE)
    surface = Surface.of(scene, space, renderer)
    for view in VIEWS:
        covered, look = made.covered_by(view, renderer), made.look(view, renderer)
        if view.kind == "top":
            assert not covered.any()
            assert (look.near, look.nearest, look.empty) == (0, np.inf, 0)
            continue
        cameras = cameras_of(view.camera) if view.kind == "around" else [view.camera]
        size = CELL if view.kind == "around" else SIZE
        frames = [renderer.draw(scene, camera, *size) for camera in cameras]
        each = [surface.seen(frame, camera) for frame, camera in zip(frames, cameras, strict=True)]
        assert (covered == np.any(each, axis=0)).all()
        depth = np.stack([frame.depth for frame in frames])
        assert look.near == (depth < NEAR_METRES).mean()
        assert look.empty == np.isinf(depth).mean()
    assert made.look(VIEWS[4], renderer).nearest == pytest.approx(0.3, abs=0.05)
    assert made.coverage(VIEWS, renderer) == made.covered(VIEWS, renderer).mean()


def test_rooms_that_were_closed_tell_the_same(scene, space, monkeypatch):
    monkeypatch.setattr(looks, "MAX_OPEN_ROOMS", 2)
    renderer, rooms, read = Counting(), Rooms(SIZE), []

    def asked(name):
        return rooms.room(name, lambda: read.append(name) or scene, lambda: space, FACTS)

    kept = asked("a")
    expected = told(kept, renderer)
    drawn = renderer.drawn
    for name in "bc":
        asked(name)
    assert kept.scene is None
    assert asked("a") is kept
    assert told(kept, renderer) == expected
    assert renderer.drawn == drawn
    new = View(9, "ego", "", STAND.turned(100))
    fresh = Room(scene, lambda: space, FACTS, SIZE)
    assert kept.sightings(new, [0, 1], renderer) == fresh.sightings(new, [0, 1], renderer)
    assert (kept.covered_by(new, renderer) == fresh.covered_by(new, renderer)).all()
    assert read == ["a", "b", "c", "a"]


def test_the_surface_may_be_asked_for_after_the_boxes(scene, space):
    renderer = Rasteriser(1)
    first, later = (Room(scene, lambda: space, FACTS, SIZE) for _ in range(2))
    for view in VIEWS:
        later.look(view, renderer)
    assert told(later, renderer) == told(first, renderer)


def test_a_room_of_which_nothing_is_known_has_no_objects(scene, space):
    made = Rooms(SIZE).room("x", lambda: scene, lambda: space)
    assert made.labels == []
    assert made.sightings(VIEWS[0], [], Rasteriser(1)) == []
