"""Cameras keep their clearance from every surface in every move."""

import functools

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.scans import as_scene, block, joined, rectangle, room, sample_points
from hypothesis import given, settings
from hypothesis import strategies as st

from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space import surface
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene

# Guarantee: a camera never comes closer to a surface than RADIUS - CELL, in metres.
RADIUS = 0.2
CELL = 0.05

TABLE = joined(
    block((2, 1.5, 0.7), (3.2, 2.3, 0.75)),
    *(block((x, y, 0), (x + 0.05, y + 0.05, 0.7)) for x in (2, 3.15) for y in (1.5, 2.25)),
)
FURNISHED = room(TABLE, block((5.2, 0.2, 0), (5.9, 2.2, 2.1)), block((0.5, 3, 0), (0.502, 4, 2.7)))


@functools.cache
def spaces():
    """Return the free space of the furnished room as a mesh and as a cloud."""
    mesh = as_scene(*FURNISHED)
    cloud = as_scene(sample_points(*FURNISHED, 120_000))
    return FreeSpace.of(mesh), FreeSpace.of(cloud)


def distance(points, faces, point):
    """Return the exact distance from a place, (3,), to the nearest triangle of a mesh."""
    a, b, c = points[faces].transpose(1, 0, 2)
    best = np.full(len(faces), np.inf)
    for start, end in ((a, b), (b, c), (c, a)):
        along = end - start
        share = np.clip(((point - start) * along).sum(1) / (along**2).sum(1), 0, 1)
        best = np.minimum(best, np.linalg.norm(start + share[:, None] * along - point, axis=1))
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    height = ((point - a) * normal).sum(1)
    foot = point - height[:, None] * normal
    sides = [(np.cross(e - s, foot - s) * normal).sum(1) for s, e in ((a, b), (b, c), (c, a))]
    within = np.all([side >= 0 for side in sides], axis=0)
    return np.where(within, np.abs(height), best).min()


EXAMPLES = 10

steps = st.lists(st.tuples(*[st.floats(-2, 2)] * 3), min_size=1, max_size=12)


@pytest.mark.parametrize("kind", [0, 1], ids=["mesh", "cloud"])
@given(walk=steps)
@settings(max_examples=EXAMPLES, deadline=None)
def test_walks_keep_their_clearance(kind, walk):
    space = spaces()[kind]
    position = space.start_position()
    for offset in walk:
        before = position
        position, blocked = space.advance(position, offset)
        for share in np.linspace(0, 1, 5):
            between = before + share * (position - before)
            assert distance(*FURNISHED, between) >= RADIUS - CELL
        assert distance(*FURNISHED, position) >= RADIUS - 0.02
        assert (position > 0).all()
        assert (position < (6, 4, 2.7)).all()
        if blocked is None:
            assert np.array_equal(position, np.add(before, offset))


@pytest.mark.parametrize("kind", [0, 1], ids=["mesh", "cloud"])
@given(walk=steps)
@settings(max_examples=EXAMPLES, deadline=None)
def test_unobstructed_moves_can_be_undone(kind, walk):
    space = spaces()[kind]
    position = space.start_position()
    for offset in walk:
        moved, blocked = space.advance(position, offset)
        if blocked is None:
            back, blocked = space.advance(moved, -np.array(offset))
            assert blocked is None
            assert np.allclose(back, position, atol=1e-9)
        position = moved


@pytest.mark.parametrize("kind", [0, 1], ids=["mesh", "cloud"])
def test_stopped_camera_can_move_along_the_wall(kind):
    space = spaces()[kind]
    position, blocked = space.advance((1.2, 1, 1.6), (-2, 0, 0))
    assert blocked == "wall"
    assert position[0] == pytest.approx(RADIUS, abs=0.04)
    along, blocked = space.advance(position, (0, 1, 0))
    assert blocked is None
    assert np.allclose(along, np.add(position, (0, 1, 0)))


@pytest.mark.parametrize("thickness", mostly_slow([0.0, 0.002, 0.1], 0.0))
@pytest.mark.parametrize("as_cloud", [False, True])
def test_walls_cannot_be_passed(thickness, as_cloud):
    wall = (
        block((3, 0, 0), (3 + thickness, 4, 2.7))
        if thickness
        else rectangle((3, 0, 0), (3, 4, 2.7))
    )
    mesh = room(wall)
    space = FreeSpace.of(as_scene(sample_points(*mesh, 60_000)) if as_cloud else as_scene(*mesh))
    random = np.random.default_rng(6)
    for _ in range(200):
        start = random.uniform((0.3, 0.3, 0.3), (2.7, 3.7, 2.4))
        end, blocked = space.advance(start, random.uniform((0, -2, -1), (20, 2, 1)))
        assert end[0] <= 3 - RADIUS + CELL
        assert blocked or end[0] < 2.85


@pytest.mark.parametrize("as_cloud", [False, True])
def test_doorway_can_be_passed_but_not_its_posts(as_cloud):
    wall = joined(
        rectangle((3, 0, 0), (3, 1.6, 2.7)),
        rectangle((3, 2.4, 0), (3, 4, 2.7)),
        rectangle((3, 1.6, 2.0), (3, 2.4, 2.7)),
    )
    mesh = room(wall)
    space = FreeSpace.of(as_scene(sample_points(*mesh, 60_000)) if as_cloud else as_scene(*mesh))
    end, blocked = space.advance((2, 2, 1.6), (2, 0, 0))
    assert blocked is None
    assert np.array_equal(end, (4, 2, 1.6))
    for y in (1.5, 2.5):
        end, blocked = space.advance((2, y, 1.6), (2, 0, 0))
        assert blocked == "wall"
        assert end[0] < 3
    assert space.advance((2, 2, 1.95), (2, 0, 0))[1] is not None


@pytest.mark.parametrize(
    ("start", "offset", "obstacle"),
    [
        ((1.2, 1, 1.6), (-2, 0, 0), "wall"),
        ((4, 1.2, 1.0), (2, 0, 0), "wall"),
        ((2.6, 0.8, 0.72), (0, 2, 0), "furniture"),
        ((2.6, 1.9, 1.6), (0, 0, -2), "furniture"),
        ((1.2, 1, 1.6), (0, 0, -2), "floor"),
        ((1.2, 1, 1.6), (0, 0, 2), "ceiling"),
        ((1.2, 1, 1.6), (0, 0.5, 0), None),
    ],
)
@pytest.mark.parametrize("kind", [0, 1], ids=["mesh", "cloud"])
def test_obstacles_are_classified(kind, start, offset, obstacle):
    assert spaces()[kind].advance(start, offset)[1] == obstacle


def test_bounds_stop_moves_where_nothing_was_scanned():
    space = FreeSpace.of(as_scene(*rectangle((0, 0, 0), (6, 4, 0))))
    end, blocked = space.advance((3, 2, 1.35), (10, 0, 0))
    assert (blocked, end.tolist()) == ("bounds", [6, 2, 1.35])
    tall = FreeSpace.of(
        as_scene(*joined(rectangle((0, 0, 0), (6, 4, 0)), rectangle((0, 0, 0), (0, 4, 2.7))))
    )
    assert tall.advance((3, 2, 1.6), (0, 0, 5))[1] == "bounds"
    assert tall.advance((3, 2, 1.6), (0, 0, -5))[1] == "floor"


def test_camera_too_close_to_a_wall_can_only_move_away():
    space = spaces()[0]
    start = np.array((0.1, 1.5, 1.6))
    assert np.array_equal(space.advance(start, (0.5, 0, 0))[0], np.add(start, (0.5, 0, 0)))
    end, blocked = space.advance(start, (-0.5, 0, 0))
    assert blocked == "wall"
    assert space.clearance(end) >= space.clearance(start) - 1e-6


@given(position=st.tuples(st.floats(-3, 9), st.floats(-3, 7), st.floats(-2, 5)))
@settings(max_examples=EXAMPLES, deadline=None)
def test_nearest_free_place_is_free_and_near(position):
    for space in spaces():
        free = space.nearest_free(position)
        assert distance(*FURNISHED, free) >= RADIUS - 0.02
        assert (free >= 0).all()
        assert (free <= (6, 4, 2.7)).all()
        if np.array_equal(free, position):
            continue
        random = np.random.default_rng(7)
        samples = random.uniform((0.2, 0.2, 0.21), (5.8, 3.8, 2.49), (50, 3))
        candidates = [each for each in samples if space.clearance(each) >= RADIUS + 0.02]
        nearest = min(np.linalg.norm(np.array(candidates) - position, axis=1))
        assert np.linalg.norm(free - position) <= nearest + 0.35


@pytest.mark.parametrize("kind", [0, 1], ids=["mesh", "cloud"])
def test_start_is_free_near_the_middle_and_deterministic(kind):
    space = spaces()[kind]
    start = space.start_position()
    assert np.array_equal(start, space.start_position())
    assert start[2] == pytest.approx(1.6)
    assert np.linalg.norm(start[:2] - (3, 2)) < 1
    assert distance(*FURNISHED, start) > 0.5


def test_start_is_inside_an_l_shaped_room():
    # The middle of the bounds is outside the room.
    walls = [
        ((0, 0), (8, 0)),
        ((8, 0), (8, 3)),
        ((8, 3), (3, 3)),
        ((3, 3), (3, 8)),
        ((3, 8), (0, 8)),
        ((0, 8), (0, 0)),
    ]
    sides = [rectangle((*np.minimum(a, b), 0), (*np.maximum(a, b), 2.7)) for a, b in walls]
    floors = [rectangle((0, 0, 0), (8, 3, 0)), rectangle((0, 3, 0), (3, 8, 0))]
    x, y, _ = FreeSpace.of(as_scene(*joined(*sides, *floors))).start_position()
    assert 0 < x < 8
    assert 0 < y < 8
    assert x < 3 or y < 3


def test_low_and_full_rooms_have_a_start():
    low = FreeSpace.of(as_scene(*room(size=(3, 3, 1.2)), ceiling=1.2)).start_position()
    assert 0.2 < low[2] < 1.0
    crawl = FreeSpace.of(as_scene(*room(size=(3, 3, 0.3)), ceiling=0.3)).start_position()
    assert np.isfinite(crawl).all()
    shelves = [rectangle((0, 0, z), (3, 3, z)) for z in np.arange(0.3, 2.7, 0.3)]
    full = FreeSpace.of(as_scene(*room(*shelves, size=(3, 3, 2.7))))
    assert full.clearance(full.start_position()) == pytest.approx(0.15, abs=0.05)
    assert np.isfinite(full.nearest_free((1, 1, 1))).all()


def test_number_of_samples_is_limited():
    from render_agent.scans.free_space.surface import surface_samples

    scene = as_scene(*room(size=(300, 300, 30)), ceiling=30.0)
    samples = surface_samples(scene, max_samples=50_000)
    assert 5_000 < len(samples) <= 50_000
    assert len(surface_samples(as_scene(*FURNISHED), max_samples=2_000)) <= 2_000


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("aws_small_house.ply", marks=pytest.mark.slow),
        "icl_redwood_livingroom1.ply",
        pytest.param("pcl_room_scan_nocolour.ply", marks=pytest.mark.slow),
    ],
)
def test_walks_through_real_scans(name):
    from scipy.spatial import cKDTree

    scene = load_scene(test_data("scenes", name))
    space = FreeSpace.of(scene)
    start = space.start_position()
    surface = cKDTree(scene.points)
    assert scene.floor < start[2] <= scene.floor + 1.6 + 1e-6
    assert space.clearance(start) >= RADIUS
    random = np.random.default_rng(8)
    num_moved, num_blocked = 0, 0
    for _ in range(10):
        position = start
        for _ in range(10):
            end, blocked = space.advance(position, random.uniform((-2, -2, -0.5), (2, 2, 0.5)))
            assert surface.query(end)[0] >= RADIUS - CELL
            num_moved += np.linalg.norm(end - position) > 0.05
            num_blocked += blocked is not None
            position = end
    assert num_moved > 30
    assert num_blocked > 10


@pytest.mark.parametrize("shape", [(15, 15, 0.02), (15, 15, 3), (15, 0.5, 0.5)])
@pytest.mark.parametrize("count", [700, 1400, 20_000])
def test_samples_of_a_large_cloud_are_the_first_point_of_each_cell(monkeypatch, shape, count):
    points = (np.random.default_rng(count).uniform(0, 1, (count, 3)) * shape).astype(np.float32)
    scene = Scene(
        "cloud",
        points,
        np.zeros((count, 3), np.uint8),
        None,
        0.0,
        3.0,
        np.array([[0, 0, 0], shape]),
    )
    cell, find = surface.CELL_METRES, surface.first_per_cell
    while len(first := find(points, cell)) > 600:
        cell *= surface.COARSER_FACTOR
    lengths = []
    monkeypatch.setattr(
        surface, "first_per_cell", lambda part, cell: lengths.append(len(part)) or find(part, cell)
    )
    assert (surface.surface_samples(scene, 600) == points[first]).all()
    if count == 20_000:  # all points are sorted for few sizes of cell
        assert lengths.count(count) <= 3
