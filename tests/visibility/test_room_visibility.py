"""Rooms cache the visibility in their views, even while they are closed."""

from collections import Counter

import numpy as np
import pytest
from factories.scenes import room, write_ply

from render_agent.dialogue.chat import View
from render_agent.render.around import around_cameras, camera_ahead, cell_size
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.scans.boxes import upright_box
from render_agent.scans.camera import Camera, MapCamera, vertical_from_horizontal
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.ground_truth import Facts
from render_agent.visibility import room_visibility
from render_agent.visibility.coverage import Surface
from render_agent.visibility.room_visibility import NEAR_METRES, Rooms, RoomVisibility

SIZE = (80, 60)
FIELD = vertical_from_horizontal(75, *SIZE)
LAMP, PLANT = upright_box((4, 0.3, 0), (4.6, 1, 0.8)), upright_box((0.3, 3, 0), (1, 3.7, 1.2))
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


class CountingRenderer(Rasteriser):
    """Counts its frames."""

    def __init__(self):
        super().__init__(1)
        self.frames = Counter()

    @property
    def num_frames(self):
        return self.frames.total()

    def draw(self, scene, *args):
        self.frames[len(scene.points), *args] += 1
        return super().draw(scene, *args)


def all_results(room, renderer):
    """Return all results of a room for VIEWS."""
    results = []
    for view in VIEWS:
        covered, look = room.covered_by(view, renderer), room.look(view, renderer)
        results.append((covered.tobytes(), look.near, look.nearest, look.empty))
        results.append(tuple(room.sightings(view, [1, 0], renderer)))
    return [*results, room.coverage(VIEWS, renderer)]


def test_views_are_drawn_once(scene, space):
    renderer = CountingRenderer()
    room = RoomVisibility(scene, lambda: space, FACTS, SIZE)
    assert room.labels == ["lamp", "plant"]
    first = all_results(room, renderer)
    num_frames = renderer.num_frames
    assert all_results(room, renderer) == first
    assert renderer.num_frames == num_frames
    drawn_views = [
        number for number, *_, width, _ in renderer.frames if width in (SIZE[0], CELL[0])
    ]
    # Three ego views, four directions and the map.
    assert drawn_views.count(len(scene.points)) == 3 + 4 + 1


def test_results_agree_with_the_frames(scene, space):
    renderer = Rasteriser(1)
    room = RoomVisibility(scene, lambda: space, FACTS, SIZE)
    surface = Surface.of(scene, space, renderer)
    for view in VIEWS:
        covered, look = room.covered_by(view, renderer), room.look(view, renderer)
        if view.kind == "top":
            assert not covered.any()
            assert (look.near, look.nearest, look.empty) == (0, np.inf, 0)
            continue
        cameras = around_cameras(view.camera) if view.kind == "around" else [view.camera]
        size = CELL if view.kind == "around" else SIZE
        frames = [renderer.draw(scene, camera, *size) for camera in cameras]
        each = [surface.seen(frame, camera) for frame, camera in zip(frames, cameras, strict=True)]
        assert (covered == np.any(each, axis=0)).all()
        depth = np.stack([frame.depth for frame in frames])
        assert look.near == (depth < NEAR_METRES).mean()
        assert look.empty == np.isinf(depth).mean()
    assert room.look(VIEWS[4], renderer).nearest == pytest.approx(0.3, abs=0.05)
    assert room.coverage(VIEWS, renderer) == room.covered(VIEWS, renderer).mean()


def test_reopened_rooms_give_the_same_results(scene, space, monkeypatch):
    monkeypatch.setattr(room_visibility, "MAX_OPEN_ROOMS", 2)
    renderer, rooms, loaded = CountingRenderer(), Rooms(SIZE), []

    def open_room(name):
        return rooms.room(name, lambda: loaded.append(name) or scene, lambda: space, FACTS)

    first = open_room("a")
    expected = all_results(first, renderer)
    num_frames = renderer.num_frames
    for name in "bc":
        open_room(name)
    assert first.scene is None
    assert open_room("a") is first
    assert all_results(first, renderer) == expected
    assert renderer.num_frames == num_frames
    new = View(9, "ego", "", STAND.turned(100))
    fresh = RoomVisibility(scene, lambda: space, FACTS, SIZE)
    assert first.sightings(new, [0, 1], renderer) == fresh.sightings(new, [0, 1], renderer)
    assert (first.covered_by(new, renderer) == fresh.covered_by(new, renderer)).all()
    assert loaded == ["a", "b", "c", "a"]


def test_surface_may_be_requested_after_the_boxes(scene, space):
    renderer = Rasteriser(1)
    first, later = (RoomVisibility(scene, lambda: space, FACTS, SIZE) for _ in range(2))
    for view in VIEWS:
        later.look(view, renderer)
    assert all_results(later, renderer) == all_results(first, renderer)


def test_room_without_ground_truth_has_no_objects(scene, space):
    room = Rooms(SIZE).room("x", lambda: scene, lambda: space)
    assert room.labels == []
    assert room.sightings(VIEWS[0], [], Rasteriser(1)) == []
