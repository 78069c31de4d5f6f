"""Floaters of a splat neither block the way nor make the room larger; its surfaces do both."""

from dataclasses import replace

import numpy as np
import pytest
from factories.scans import as_scene, room
from factories.splats import as_splat

from render_agent.scans.extent import extent
from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.scans.solid import solid

SIZE = np.array([6.0, 4.0, 2.7])


def with_floaters(scene: Scene, places, scales, opacities) -> Scene:
    """Return a splat with more Gaussians at places (k, 3) metres, round, of scales and opacities (k,)."""
    g, count = scene.gaussians, len(places)
    parts = {
        "scales": np.repeat(np.float32(scales)[:, None], 3, axis=1),
        "rotations": np.tile(np.float32([1, 0, 0, 0]), (count, 1)),
        "opacities": np.float32(opacities),
        "harmonics": np.zeros((count, 1, 3), np.float32),
    }
    joined = {name: np.concatenate([getattr(g, name), part]) for name, part in parts.items()}
    points = np.concatenate([scene.points, np.asarray(places, np.float32)])
    colours = np.concatenate([scene.colours, np.zeros((count, 3), np.uint8)])
    return replace(scene, points=points, colours=colours, gaussians=replace(g, **joined))


@pytest.fixture(scope="module", params=[8_000, 60_000], ids=["coarse", "fine"])
def clean(request):
    return as_splat(as_scene(*room(size=tuple(SIZE))), request.param)


@pytest.fixture(scope="module")
def dirty(clean):
    random = np.random.default_rng(1)
    inside = 0.4 + random.random((150, 3)) * (SIZE - 0.8)
    outside = SIZE / 2 + random.normal(size=(40, 3)) * 12
    # opaque ones of all sizes, and a fog of many that are hardly there
    fog = 0.5 + random.random((3000, 3)) * (SIZE - 1.0)
    places = np.concatenate([inside, outside, fog])
    scales = np.exp(random.uniform(np.log(0.005), np.log(0.2), len(places)))
    opacities = np.concatenate([random.uniform(0.3, 1, 190), random.uniform(0.02, 0.2, 3000)])
    return with_floaters(clean, places, scales, opacities)


def test_surfaces_are_solid_and_floaters_are_not(clean, dirty):
    found, surface = solid(dirty.points, dirty.gaussians), len(clean.points)
    assert found[:surface].all()
    assert found[surface:].mean() < 0.001


def test_the_room_is_as_large_as_without_floaters(clean, dirty):
    found = [extent(Scan(each.points, gaussians=each.gaussians)) for each in (clean, dirty)]
    assert found[1].bounds == pytest.approx(found[0].bounds, abs=0.01)
    assert found[1].bounds == pytest.approx(np.array([np.zeros(3), SIZE]), abs=0.2)
    assert (found[1].floor, found[1].ceiling) == pytest.approx((0.0, SIZE[2]), abs=0.03)


def test_floaters_do_not_block_the_way_and_walls_do(clean, dirty):
    space = FreeSpace.of(dirty)
    start, way = (0.5, 2.0, 1.5), (6.0, 0.0, 0.0)
    end, obstacle = space.advance(start, way)
    assert obstacle == "wall"
    assert end == pytest.approx((5.8, 2.0, 1.5), abs=0.06)
    without = FreeSpace.of(clean)
    places = 0.3 + np.random.default_rng(2).random((200, 3)) * (SIZE - 0.6)
    assert [space.clearance(at) for at in places] == pytest.approx(
        [without.clearance(at) for at in places], abs=0.01
    )


def test_a_wall_of_few_large_gaussians_has_no_gaps():
    wall = as_splat(as_scene(*room(size=tuple(SIZE))), 500)
    space = FreeSpace.of(wall)
    random = np.random.default_rng(3)
    for y, z in random.uniform((0.5, 0.5), (3.5, 2.2), (30, 2)):
        end, obstacle = space.advance((3.0, y, z), (8.0, 0.0, 0.0))
        assert obstacle in ("wall", "furniture")
        assert end[0] < 6.0
