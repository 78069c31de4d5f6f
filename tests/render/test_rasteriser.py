"""The rasteriser: exact coverage, thread-independent pixels, and constant memory."""

import gc
import resource
import weakref
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.raycaster import RayCaster
from factories.rooms import RED, as_cloud, box, mesh, room
from rich.console import Console

from render_agent.errors import RenderError
from render_agent.render.rasteriser import blocks
from render_agent.render.rasteriser import rasteriser as rasteriser_module
from render_agent.render.rasteriser.blocks import cloud_blocks
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.renderer import without_colours
from render_agent.scans.camera import Camera, MapCamera
from render_agent.scans.formats.load import load_scene
from render_agent.util.display import display_on

W, H = 320, 240
BUNDLED = Path(__file__).parents[2] / "scenes"


def tessellated(count, seed=0, noise=0.0):
    """Return a bumpy wall with 2 count² faces and random vertex colours, visible from x = 0."""
    rng = np.random.default_rng(seed)
    y, z = np.meshgrid(np.linspace(-4, 4, count + 1), np.linspace(-3, 4, count + 1))
    points = np.column_stack([np.full(y.size, 3.0), y.ravel(), z.ravel()])
    points += rng.normal(0, noise, points.shape)
    first = (np.arange(count)[:, None] * (count + 1) + np.arange(count)).ravel()
    quads = np.column_stack([first, first + 1, first + count + 2, first + count + 1])
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    return mesh([(points, rng.integers(0, 256, points.shape), faces)])


def differing_share(first, second):
    """Return the share of pixels whose colours differ by more than 2 or depths by more than 0.1 %."""
    colour_differs = np.abs(first.colours.astype(int) - second.colours).max(axis=2) > 2
    depth_agrees = np.isclose(first.depth, second.depth, rtol=1e-3, atol=1e-4)
    return (colour_differs | ~depth_agrees).mean()


@pytest.mark.parametrize("noise", [0.0, 0.02])
@pytest.mark.parametrize("count", mostly_slow([3, 40, 300], 3))
def test_closed_surface_has_no_holes_and_agrees_with_ray_casting(rasteriser, count, noise):
    scene, camera = tessellated(count, noise=noise), Camera((0.0, 0.1, 1.4), 3.0, -4.0)
    frame = rasteriser.draw(scene, camera, W, H)
    assert (frame.depth < np.inf).all()
    assert differing_share(frame, RayCaster().draw(scene, camera, W, H)) < 1e-3


def test_pixels_on_shared_edges_do_not_depend_on_face_order(rasteriser):
    scene, camera = tessellated(60), Camera((0.0, 0.0, 1.5))
    order = np.random.default_rng(1).permutation(len(scene.faces))
    shuffled = replace(scene, faces=np.roll(scene.faces[order], 1, axis=1))
    first, second = (rasteriser.draw(s, camera, W, H) for s in (scene, shuffled))
    assert (first.colours == second.colours).all()
    assert (first.primitive == order[second.primitive]).all()


@pytest.mark.parametrize("shift", [0.0, 0.5, 0.25])
def test_every_pixel_of_a_fan_belongs_to_exactly_one_triangle(rasteriser, shift):
    """Edges pass through pixel centres: a map pixel is 1 m, and the hub is on a pixel centre."""
    rim = [(9, 0), (9, 9), (0, 9), (-9, 9), (-9, 0), (-9, -9), (0, -9), (9, -9), (5, -7)]
    points = np.array([(x + shift, y + shift, 0) for x, y in [(0, 0), *rim]])
    faces = np.array([[0, 1 + i, 1 + (i + 1) % 8] for i in range(8)])
    fan, camera = mesh([(points, np.full((10, 3), 9), faces)]), MapCamera((0.0, 0.0), 1.0, 1.0)
    covered = sum(
        np.isfinite(rasteriser.draw(replace(fan, faces=fan.faces[[i]]), camera, 32, 32).depth)
        for i in range(8)
    )
    assert covered.max() == 1
    assert covered.sum() == 18 * 18
    assert (covered == np.isfinite(rasteriser.draw(fan, camera, 32, 32).depth)).all()


@pytest.mark.parametrize("seed", mostly_slow(range(8), 0, 1, 2))
def test_random_triangles_agree_with_ray_casting(rasteriser, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(0, 3, (40, 1, 3)) + rng.normal(0, rng.uniform(0.1, 4), (40, 3, 3))
    faces = np.arange(120).reshape(40, 3)
    scene = mesh([(points.reshape(-1, 3), rng.integers(0, 256, (120, 3)), faces)])
    oracle = RayCaster()
    cameras = [Camera((0.0, 0.0, 0.5), yaw, pitch, 70.0) for yaw, pitch in ((0, 0), (130, -50))]
    for camera in (*cameras, MapCamera((0.0, 0.0), 0.3, 0.04)):
        frame = rasteriser.draw(scene, camera, W, H)
        expected = oracle.draw(scene, camera, W, H)
        assert (frame.primitive != expected.primitive).mean() < 1e-3
        assert differing_share(frame, expected) < 1e-3


@pytest.mark.parametrize("count", [30, 2], ids=["narrow", "wide enough for SIMD"])
def test_first_of_two_equal_faces_is_visible(rasteriser, count):
    scene = tessellated(count)
    doubled = replace(scene, faces=np.concatenate([scene.faces, scene.faces]))
    frame = rasteriser.draw(doubled, Camera((0.0, 0.0, 1.5), 10.0), W, H)
    assert frame.primitive.max() < len(scene.faces)


REAL = [
    pytest.param(
        *("aws_small_house.ply", [(0, 0), (120, -20), (240, -50), (45, 30)]), marks=pytest.mark.slow
    ),
    ("icl_redwood_livingroom1.ply", [(0, 0), (100, -20), (200, -30), (300, 10)]),
]


@pytest.mark.parametrize(("name", "turns"), REAL)
def test_real_scans_agree_with_ray_casting(rasteriser, name, turns):
    scene = load_scene(Path(test_data("scenes", name)))
    x, y, _ = scene.bounds.mean(axis=0)
    cameras = [Camera((x, y, scene.floor + 1.5), yaw, pitch) for yaw, pitch in turns]
    extent = (scene.bounds[1] - scene.bounds[0])[:2].max()
    cameras.append(MapCamera((x, y), scene.ceiling - 0.35, extent / 300))
    oracle = RayCaster()
    for camera in cameras:
        frame = rasteriser.draw(scene, camera, W, H)
        expected = oracle.draw(scene, camera, W, H)
        assert differing_share(frame, expected) < 1e-3
        assert (frame.primitive != expected.primitive).mean() < 1e-3


@pytest.mark.parametrize(
    "camera", [Camera((0.0, 0.0, 1.5), 20.0), MapCamera((2.0, 0.0), 2.0, 0.02)]
)
@pytest.mark.parametrize("cloud", [False, True])
def test_pixels_do_not_depend_on_threads_or_run(camera, cloud):
    scene = room(box((2, -0.5, 0), (3, 0.5, 1), RED))
    scene = as_cloud(scene) if cloud else tessellated(200, noise=0.01)
    frames = []
    for threads in (1, 3):
        renderer = Rasteriser(threads=threads)
        frames += [renderer.draw(scene, camera, 333, 257) for _ in range(2)]
        renderer.close()
    for frame in frames[1:]:
        assert (frame.colours == frames[0].colours).all()
        assert (frame.depth == frames[0].depth).all()
        assert (frame.primitive == frames[0].primitive).all()


@pytest.mark.parametrize(
    "camera", [Camera((0.0, 0.0, 0.0), 40.0, 10.0), MapCamera((0, 0), 0.5, 0.02)]
)
def test_colourless_frames_have_identical_depth_and_primitives(rasteriser, camera):
    scene = tessellated(3)
    empty = replace(scene, points=scene.points + 9, faces=scene.faces[:0])
    for each in (scene, empty):
        expected = rasteriser.draw(each, camera, 90, 70)
        frame = without_colours(rasteriser).draw(each, camera, 90, 70)
        assert not frame.colours.size
        assert frame.depth.tobytes() == expected.depth.tobytes()
        assert frame.primitive.tobytes() == expected.primitive.tobytes()


def soup():
    """Return triangles of random positions and sizes."""
    rng = np.random.default_rng(1)
    corners = rng.uniform(-2, 2, (900, 1, 3)) + rng.normal(0, 0.3, (900, 3, 3))
    colours = rng.integers(0, 256, (2700, 3))
    return mesh([(corners.reshape(-1, 3), colours, np.arange(2700).reshape(-1, 3))])


def flipped(scene):
    return replace(scene, faces=np.ascontiguousarray(scene.faces[:, ::-1]))


SCENES = {
    "wall": lambda: tessellated(90, noise=0.01),
    "flipped wall": lambda: flipped(tessellated(90, noise=0.01)),
    "soup": soup,
    "bundled room": lambda: load_scene(BUNDLED / "room00.ply"),
    "real scan": lambda: load_scene(Path(test_data("scenes", "icl_redwood_livingroom1.ply"))),
    "textured scan": lambda: load_scene(Path(test_data("textured", "vr-gallery.glb"))),
    "large scan": lambda: load_scene(Path(test_data("scenes", "aws_small_house.ply"))),
}


@pytest.mark.parametrize(
    "name", mostly_slow(SCENES, *[name for name in SCENES if name != "large scan"])
)
def test_culling_changes_no_byte(monkeypatch, name):
    scene = SCENES[name]()
    rng = np.random.default_rng(0)
    low, high = scene.bounds
    positions = [
        *rng.uniform(low, high, (6, 3)),
        *scene.points[rng.integers(len(scene.points), size=4)],
    ]
    cameras = [
        Camera(tuple(map(float, position)), rng.uniform(-180, 180), rng.uniform(-80, 80), 70.0)
        for position in positions
    ]
    cameras += [MapCamera((0.5, 0.5), float(high[2]) - 0.3, 0.03), Camera((0.0, 0.0, 1.0), 90.0)]
    frames = {}
    for size in (blocks.FACES_PER_BLOCK, len(scene.faces)):  # a single block is always drawn
        monkeypatch.setattr(blocks, "FACES_PER_BLOCK", size)
        monkeypatch.setattr(rasteriser_module, "FACES_PER_BLOCK", size)
        renderer = Rasteriser(threads=2)
        drawn = [renderer.draw(scene, camera, 161, 120) for camera in cameras]
        frames[size] = [
            (frame.colours.tobytes(), frame.depth.tobytes(), frame.primitive.tobytes())
            for frame in drawn
        ]
        renderer.close()
    culled, whole = frames.values()
    assert culled == whole


def test_degenerate_and_huge_triangles_are_drawn(rasteriser):
    points = np.array([[2, 0, 1], [2, 0, 1], [2, 1, 1], [2, 2, 1], [-9e4, -1e5, 1], [9e4, 0, 1]])
    points = np.vstack([points, [[-9e4, 1e5, 1], [3, 0, 1.5]]])
    faces = np.array([[0, 0, 0], [0, 1, 2], [0, 2, 3], [7, 7, 2], [4, 5, 6]])
    shades = np.full((8, 3), 33)
    shades[4:7] = RED
    frame = rasteriser.draw(
        mesh([(points, shades, faces)]), Camera((0.0, 0.0, 1.5), 0.0, -45.0), W, H
    )
    assert (frame.primitive == 4).all()
    assert (frame.colours == RED).all()


def test_subpixel_triangles_leave_no_holes(rasteriser):
    scene = tessellated(400)
    frame = rasteriser.draw(scene, Camera((-60.0, 0.0, 0.5)), 64, 48)
    rows, columns = np.nonzero(frame.depth < np.inf)
    assert len(rows) == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)


def test_block_around_the_camera_hides_the_one_behind(rasteriser):
    scene = mesh([box((-1, -1, 0), (1, 1, 2.5), RED), box((5, -1, 0), (6, 1, 1), (0, 0, 9))])
    frame = rasteriser.draw(scene, Camera((0.0, 0.0, 1.5)), W, H)
    assert (frame.colours == RED).all()


def test_memory_stays_constant_over_many_views(rasteriser):
    scenes = tessellated(30), as_cloud(room(), spacing=0.1)
    cameras = [Camera((0.0, 0.0, 1.5), float(yaw)) for yaw in range(100)]
    for camera in cameras:
        for scene in scenes:
            rasteriser.draw(scene, camera, 80, 60)
    growth = []
    for _ in range(3):  # a leak grows every time, other allocations do not
        gc.collect()
        before = resident_bytes()
        for turn in range(10):
            for camera in cameras:
                rasteriser.draw(scenes[turn % 2], camera, 80, 60)
        gc.collect()
        growth.append(resident_bytes() - before)
        if growth[-1] < 8 * 2**20:
            break
    assert min(growth) < 8 * 2**20


def resident_bytes():
    """Return the resident memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def test_blocks_are_released_with_their_scene(rasteriser):
    scene = tessellated(10)
    rasteriser.draw(scene, Camera((0.0, 0.0, 1.5)), 8, 8)
    blocks = weakref.ref(rasteriser._blocks[scene])
    del scene
    gc.collect()
    assert blocks() is None


def test_faces_out_of_range_are_an_error(rasteriser):
    scene = replace(room(), faces=np.array([[0, 1, 10**6]], np.int32))
    for renderer in (rasteriser, RayCaster()):
        with pytest.raises(RenderError, match="vertices"):
            renderer.draw(scene, Camera((0.0, 0.0, 1.5)), 8, 8)


def test_empty_scene_is_background(rasteriser):
    empty = replace(
        room(), points=np.empty((0, 3), np.float32), colours=np.empty((0, 3), np.uint8), faces=None
    )
    assert np.isinf(rasteriser.draw(empty, Camera((0.0, 0.0, 1.5)), 8, 8).depth).all()
    assert len(cloud_blocks(empty).radii) == 0


@pytest.mark.parametrize(
    ("cached", "kind"), [((), "mesh"), (("colour_points",), "mesh"), (("colour_faces",), None)]
)
def test_prepare_compiles_only_uncached_kernels(tmp_path, monkeypatch, cached, kind):
    (tmp_path / "rasteriser_0").mkdir()
    for name in cached:
        (tmp_path / "rasteriser_0" / f"zbuffer.{name}-1.py311.nbi").touch()
    monkeypatch.setattr("render_agent.render.rasteriser.kernels.FOLDER", tmp_path)
    compiled, printed = [], StringIO()
    monkeypatch.setattr(
        "render_agent.render.rasteriser.rasteriser.compile_kernels", compiled.append
    )
    with display_on(Console(file=printed)):
        Rasteriser.prepare(lambda: tessellated(1))
    assert compiled == ([kind] if kind else [])
    assert bool(printed.getvalue()) == bool(kind)


def test_prepare_does_not_load_a_scene_if_all_kernels_are_cached(monkeypatch):
    monkeypatch.setattr("render_agent.render.rasteriser.rasteriser.is_cached", lambda name: True)
    Rasteriser.prepare(lambda: pytest.fail("the scene was read"))
