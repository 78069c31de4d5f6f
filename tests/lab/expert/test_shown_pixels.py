"""Visibility by pixel counts on maps and in images, with and without face ids from the renderer."""

from dataclasses import replace

import numpy as np
import pytest
from factories.scenes import room, write_ply

from render_agent.dialogue.chat import View
from render_agent.render.make_renderer import make_renderer
from render_agent.scans.boxes import upright_box
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.tasks.ground_truth import Facts
from render_agent.visibility.box_surfaces import MARGIN_METRES
from render_agent.visibility.room_visibility import Rooms
from render_agent_lab.expert.derive import spot_of
from render_agent_lab.expert.sightings import (
    MIN_IMAGE_SHARE,
    MIN_MAP_SHARE,
    make_knowledge,
    measure_sightings,
)

SIZE = (320, 240)
BOXES = {
    "Lamp": [upright_box((4, 0.3, 0), (4.6, 1, 0.8))],
    "plant": [upright_box((0.3, 3, 0), (1, 3.7, 1.2))],
    "sofa": [upright_box((3.9, 3.1, 0), (4.7, 3.8, 0.5))],
}
TOP = MapCamera((2.5, 2.0), 2.0, 0.02)
START = Camera((2.5, 2.0, 1.5))


class DepthOnlyRenderer:
    """A renderer without face ids, like the OpenGL ones."""

    def __init__(self, renderer):
        self.renderer = renderer

    def draw(self, *arguments):
        return replace(self.renderer.draw(*arguments), primitive=None)


@pytest.fixture(params=[False, True], ids=["faces", "depth"])
def renderer(request):
    renderer = make_renderer()
    yield DepthOnlyRenderer(renderer) if request.param else renderer
    renderer.close()


def open_room(folder, size=SIZE):
    scene = load_scene(write_ply(folder / "room.ply", *room()))
    facts = Facts({}, 20.0, BOXES)
    return Rooms(size).room("room", lambda: scene, lambda: FreeSpace.of(scene), facts)


def test_maps_show_boxes_by_their_footprint(tmp_path, renderer):
    for size in (SIZE, (640, 480)):
        camera = replace(TOP, metres_per_pixel=0.02 * SIZE[0] / size[0])
        pixels = open_room(tmp_path, size).areas(View(0, "top", "", camera), renderer)
        areas = pixels * camera.metres_per_pixel**2
        # Without face ids, the adjacent floor counts as part of a box.
        margin = 2 * MARGIN_METRES if isinstance(renderer, DepthOnlyRenderer) else 0.0
        footprints = np.array([box.size[:2] for (box,) in BOXES.values()])
        assert (areas >= 0.94 * footprints.prod(axis=1)).all()
        assert (areas <= 1.08 * (footprints + margin).prod(axis=1)).all()


@pytest.mark.parametrize("renderer", [False], indirect=True)
def test_objects_above_the_map_height_are_not_on_it(tmp_path, renderer):
    view = View(0, "top", "", replace(TOP, height=0.6))
    lamp, plant, sofa = open_room(tmp_path).areas(view, renderer)
    assert lamp == plant == 0 < sofa


def test_maps_and_images_are_tracked_separately(tmp_path, renderer):
    room_ = open_room(tmp_path)
    views = [View(n, "ego", "", START.looking_at(BOXES["Lamp"][0].centre)) for n in range(2)]
    sighted = measure_sightings(room_, views, renderer)
    assert sighted.seen.tolist() == sighted.shown.tolist() == [True, False, False]
    assert not sighted.on_map.any()
    known = make_knowledge(room_, sighted, ())
    assert known.spots() == {"lamp": [spot_of(BOXES["Lamp"][0])]}
    both = measure_sightings(room_, [*views, View(2, "top", "", TOP)], renderer)
    assert both.shown.all()
    assert both.seen.tolist() == [True, False, False]


def test_small_objects_do_not_count_as_shown(tmp_path, renderer):
    room_ = open_room(tmp_path)
    far = MapCamera((2.5, 2.0), 2.0, 0.12)
    sighted = measure_sightings(room_, [View(0, "top", "", far)], renderer)
    assert sighted.shown.tolist() == (sighted.on_map >= MIN_MAP_SHARE).tolist() == [False] * 3
    assert sighted.on_map.all()
    near = START.looking_at(BOXES["sofa"][0].centre)
    wide = replace(near, vertical_fov=150.0)
    (*_, sofa) = measure_sightings(room_, [View(0, "ego", "", wide)], renderer).in_image
    (*_, closer) = measure_sightings(room_, [View(0, "ego", "", near)], renderer).in_image
    assert sofa < MIN_IMAGE_SHARE < closer
