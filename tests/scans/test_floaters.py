"""A splat's floaters neither block movement nor enlarge the room; its surfaces do both."""

from dataclasses import replace

import numpy as np
import pytest
from factories.scans import as_scene, room
from factories.splats import as_splat

from render_agent.scans.extent import measure_extent
from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.scans.solid import find_solid

SIZE = np.array([6.0, 4.0, 2.7])


def with_floaters(scene: Scene, places, scales, opacities) -> Scene:
    """Return a splat with additional round Gaussians: places (k, 3) in metres, scales and opacities (k,)."""
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
def clean_splat(request):
    return as_splat(as_scene(*room(size=tuple(SIZE))), request.param)


@pytest.fixture(scope="module")
def splat_with_floaters(clean_splat):
    random = np.random.default_rng(1)
    inside = 0.4 + random.random((150, 3)) * (SIZE - 0.8)
    outside = SIZE / 2 + random.normal(size=(40, 3)) * 12
    # Opaque floaters of all sizes, and a fog of many nearly transparent ones.
    fog = 0.5 + random.random((3000, 3)) * (SIZE - 1.0)
    places = np.concatenate([inside, outside, fog])
    scales = np.exp(random.uniform(np.log(0.005), np.log(0.2), len(places)))
    opacities = np.concatenate([random.uniform(0.3, 1, 190), random.uniform(0.02, 0.2, 3000)])
    return with_floaters(clean_splat, places, scales, opacities)


def test_only_surfaces_are_solid(clean_splat, splat_with_floaters):
    is_solid, num_surface = (
        find_solid(splat_with_floaters.points, splat_with_floaters.gaussians),
        len(clean_splat.points),
    )
    assert is_solid[:num_surface].all()
    assert is_solid[num_surface:].mean() < 0.001


def test_floaters_do_not_enlarge_the_room(clean_splat, splat_with_floaters):
    expected, actual = (
        measure_extent(Scan(each.points, gaussians=each.gaussians))
        for each in (clean_splat, splat_with_floaters)
    )
    assert actual.bounds == pytest.approx(expected.bounds, abs=0.01)
    assert actual.bounds == pytest.approx(np.array([np.zeros(3), SIZE]), abs=0.2)
    assert (actual.floor, actual.ceiling) == pytest.approx((0.0, SIZE[2]), abs=0.03)


def test_walls_block_movement_and_floaters_do_not(clean_splat, splat_with_floaters):
    space = FreeSpace.of(splat_with_floaters)
    end, obstacle = space.advance((0.5, 2.0, 1.5), (6.0, 0.0, 0.0))
    assert obstacle == "wall"
    assert end == pytest.approx((5.8, 2.0, 1.5), abs=0.06)
    expected = FreeSpace.of(clean_splat)
    places = 0.3 + np.random.default_rng(2).random((200, 3)) * (SIZE - 0.6)
    assert [space.clearance(at) for at in places] == pytest.approx(
        [expected.clearance(at) for at in places], abs=0.01
    )


def test_wall_of_few_large_gaussians_has_no_gaps():
    wall = as_splat(as_scene(*room(size=tuple(SIZE))), 500)
    space = FreeSpace.of(wall)
    random = np.random.default_rng(3)
    for y, z in random.uniform((0.5, 0.5), (3.5, 2.2), (30, 2)):
        end, obstacle = space.advance((3.0, y, z), (8.0, 0.0, 0.0))
        assert obstacle in ("wall", "furniture")
        assert end[0] < 6.0
