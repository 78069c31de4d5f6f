"""Object visibility, compared with an independent ray-casting implementation."""

import math
from dataclasses import replace

import numpy as np
import pytest
from factories import TREE
from factories.rooms import BLUE, FLOOR, GREEN, RED, as_cloud, box, mesh, room
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from render_agent.render.projection import projection
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.rasteriser.zbuffer import cover
from render_agent.render.renderer import Frame
from render_agent.scans.boxes import upright_box
from render_agent.scans.camera import Camera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.scene import Scene
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.visibility.box_surfaces import _face_orientation
from render_agent.visibility.counting import angle_of_faces
from render_agent.visibility.object_visibility import ObjectSighting, ObjectVisibility

SCENES = sorted((TREE / "scenes").glob("*.ply"))
SIZE = (160, 120)
POSES = 13  # per room; 104 in all eight rooms

TOLERANCE = 0.02

# Objects that intersect another one: the sofa's arm extends into the box of its pillow, so boxes cannot separate them.
LEANING = ("pillow",)


class RayCastingTruth:
    """Ground truth for a bundled room, from Open3D ray casting.

    An object consists of the connected mesh pieces entirely inside its box. A piece in nested boxes belongs to the
    smallest and to those less than twice as large. There is no margin and no rule about touching surfaces.
    """

    def __init__(self, scene, boxes):
        self.points, self.faces = scene.points, scene.faces
        self.boxes = boxes
        _, vertex = np.unique(np.round(self.points, 5), axis=0, return_inverse=True)
        ends = vertex.reshape(-1)[self.faces]
        edges = np.concatenate([ends[:, :2], ends[:, 1:]])
        graph = coo_matrix((np.ones(len(edges)), edges.T), (vertex.max() + 1,) * 2)
        count, label = connected_components(graph)
        piece = label[ends[:, 0]]
        holds = np.zeros((count, len(boxes)), bool)
        volumes = np.array([box.size.prod() for box in boxes])
        for number, object_box in enumerate(boxes):
            excess = np.full(count, -np.inf)
            outside = (
                np.abs((self.points - object_box.centre) @ object_box.axes.T) - object_box.size / 2
            )
            np.maximum.at(excess, label[vertex.reshape(-1)], outside.max(axis=1))
            holds[:, number] = excess < 0.003
        smallest = np.where(holds, volumes, np.inf).min(axis=1)
        self.of_box = (holds & (volumes <= 2 * smallest[:, None]))[piece]  # (faces, boxes)
        self.everything = self.make_raycaster(np.ones(len(self.faces), bool))
        self.alone = [self.make_raycaster(face_mask) for face_mask in self.of_box.T]

    def make_raycaster(self, mask):
        import open3d

        tree = open3d.t.geometry.RaycastingScene(nthreads=1)
        faces = self.faces[mask].astype(np.uint32)
        tree.add_triangles(open3d.core.Tensor(self.points), open3d.core.Tensor(faces))
        return tree

    def count(self, camera, width, height):
        """Return the number of pixels and the visible share of every box."""
        yaw, pitch = math.radians(camera.yaw), math.radians(camera.pitch)
        ahead = np.array([np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)])
        right = np.array([np.sin(yaw), -np.cos(yaw), 0])
        down = np.cross(ahead, right)
        half = math.tan(math.radians(camera.vertical_fov) / 2)
        v, u = np.indices((height, width))
        x = ((u + 0.5) / width * 2 - 1) * half * width / height
        y = ((v + 0.5) / height * 2 - 1) * half
        directions = (ahead + x[..., None] * right + y[..., None] * down).reshape(-1, 3)
        angles = (2 * half / height) ** 2 / np.linalg.norm(directions, axis=1) ** 3
        face, hit = cast(self.everything, camera.position, directions)
        shows = np.zeros((len(directions), len(self.boxes)), bool)
        shows[hit] = self.of_box[face[hit]]
        areas, visible_angles = shows.sum(axis=0), angles @ shows
        return areas, np.array(
            [self.share(n, visible_angles[n], camera.position) for n in range(len(visible_angles))]
        )

    def share(self, number, visible_angles, position, count=12000):
        """Return a solid angle as a share of that of the unoccluded object."""
        if not visible_angles:
            return 0.0
        corners = self.boxes[number].grown(0.01).corners - position
        corners /= np.linalg.norm(corners, axis=1)[:, None]
        axis = corners.mean(axis=0)
        axis /= np.linalg.norm(axis)
        smallest = (corners @ axis).min() if np.linalg.norm(corners.mean(axis=0)) > 0.6 else -1.0
        # Evenly spaced directions in the spherical cap that contains the box (Fibonacci sphere).
        step = np.arange(count) + 0.5
        along, turn = 1 - (1 - smallest) * step / count, math.pi * (1 + math.sqrt(5)) * step
        side = np.cross(axis, [0.36, 0.48, 0.8])
        side /= np.linalg.norm(side)
        around = np.cos(turn)[:, None] * side + np.sin(turn)[:, None] * np.cross(axis, side)
        directions = along[:, None] * axis + np.sqrt(1 - along**2)[:, None] * around
        unoccluded_angle = (
            cast(self.alone[number], position, directions)[1].mean() * 2 * math.pi * (1 - smallest)
        )
        return min(1.0, visible_angles / unoccluded_angle)


def contains(box, points):
    """Return which points are inside a box."""
    return (np.abs((points - box.centre) @ box.axes.T) <= box.size / 2).all(axis=1)


def cast(tree, position, directions):
    """Return the face hit by each ray, and whether there is one."""
    import open3d

    rays = np.concatenate([np.broadcast_to(position, directions.shape), directions], axis=1)
    hits = tree.cast_rays(open3d.core.Tensor(rays.astype(np.float32)), nthreads=1)
    return hits["primitive_ids"].numpy(), np.isfinite(hits["t_hit"].numpy())


def random_cameras(scene, boxes, count):
    """Return random cameras in the free space of a scene, but not inside boxes such as cabinets."""
    space, rng = FreeSpace.of(scene), np.random.default_rng(5)
    cameras = []
    while len(cameras) < count:
        position = space.nearest_free(rng.uniform(*space.bounds))
        yaw, pitch = rng.uniform(-180, 180), rng.uniform(-40, 20)
        if not any(contains(box, position[None]).any() for box in boxes):
            cameras.append(Camera(tuple(map(float, position)), yaw, pitch, 59.8))
    return cameras


@pytest.mark.parametrize(
    "scan",
    [
        scan if number == 6 else pytest.param(scan, marks=pytest.mark.slow)
        for number, scan in enumerate(SCENES)
    ],
    ids=lambda scan: scan.stem,
)
def test_area_and_share_agree_with_ray_casting(scan):
    scene = load_scene(scan, scan.stem)
    objects = read_ground_truth(scan.with_suffix(".json")).objects
    boxes = [entry.box for entry in objects]
    rays, visibility = (
        RayCastingTruth(scene, boxes),
        ObjectVisibility(Rasteriser(1), scene, boxes, SIZE),
    )
    numbers = [number for number, entry in enumerate(objects) if entry.label not in LEANING]
    num_compared = num_occluded = 0
    for camera in random_cameras(scene, boxes, POSES):
        areas, shares = rays.count(camera, *SIZE)
        for number, sighting in zip(numbers, visibility.look(camera, numbers), strict=True):
            context = objects[number].label, camera
            assert sighting.area == pytest.approx(areas[number], rel=TOLERANCE, abs=2), context
            assert sighting.share == pytest.approx(shares[number], abs=TOLERANCE), context
            num_compared += areas[number] > 0
            num_occluded += 0 < shares[number] < 0.7
    assert num_compared >= 3 * POSES
    assert num_occluded >= POSES


AHEAD = Camera((0.0, 0.0, 1.2), 0.0, 0.0, 60.0)
TARGET = upright_box((3, -0.4, 0.6), (3.5, 0.4, 1.6))


def sight_only_box(visibility, camera=AHEAD):
    """Return the sighting of the only box."""
    (sighting,) = visibility.look(camera)
    return sighting


def room_with_target(*more_boxes):
    """Return a room with a red object ahead, and some others."""
    return room(box((3, -0.4, 0.6), (3.5, 0.4, 1.6), RED), *more_boxes)


def visibility_of(scene, *boxes, size=(320, 240), renderer=None):
    return ObjectVisibility(renderer or Rasteriser(1), scene, boxes or (TARGET,), size)


def test_unoccluded_object_is_fully_visible():
    sighting = sight_only_box(
        ObjectVisibility(Rasteriser(1), room_with_target(), [TARGET], (640, 480), max_width=640)
    )
    assert sighting.share == pytest.approx(1.0, abs=0.01)
    assert sighting.distance == pytest.approx(3.0)
    focal = 240 / math.tan(math.radians(30))
    assert sighting.area == pytest.approx(0.8 * focal / 3 * focal / 3, rel=0.02)


def test_half_occluded_object_has_half_the_share():
    wall = box((1.5, 0.0, 0.0), (1.6, 2.0, 2.6), BLUE)
    assert sight_only_box(visibility_of(room_with_target(wall))).share == pytest.approx(
        0.5, abs=0.02
    )


def test_object_behind_the_camera_is_not_visible():
    assert sight_only_box(visibility_of(room_with_target()), AHEAD.turned(180)) == ObjectSighting(
        0, 0, 0.0, 0.0, pytest.approx(3.0)
    )


def test_camera_inside_an_object():
    hollow = upright_box((-0.6, -0.6, 0.2), (0.6, 0.6, 2.2))
    scene = room(box(hollow.bounds[0], hollow.bounds[1], RED))
    sighting = sight_only_box(visibility_of(scene, hollow))
    assert sighting.distance == 0
    assert sighting.area == 320 * 240
    focal, half = AHEAD.focal(240), (160, 120)
    # Solid angle of a rectangle; an object all around the camera has that of the whole sphere.
    u, v = (side / focal for side in half)
    angle = 4 * math.atan(u * v / math.sqrt(1 + u * u + v * v))
    assert sighting.share == pytest.approx(angle / (4 * math.pi), rel=0.02)


ON_THE_WALL = upright_box((4.98, -0.5, 1.0), (5.0, 0.3, 1.6))
ON_THE_FLOOR = upright_box((2.0, -1.0, 0.0), (3.5, 0.8, 0.01))
FLAT = {"picture": (ON_THE_WALL, -2.0), "rug": (ON_THE_FLOOR, -20.0)}


@pytest.mark.parametrize("name", FLAT)
def test_flat_objects_exclude_the_floor_or_wall_behind(name):
    flat_box, pitch = FLAT[name]
    scene = subdivided(room(box(flat_box.bounds[0], flat_box.bounds[1], RED)))
    camera = AHEAD.turned(up=pitch)
    red = red_pixels(scene, camera)
    assert red > 500
    assert sight_only_box(visibility_of(scene, flat_box), camera).area == pytest.approx(
        red, rel=0.005
    )


@pytest.mark.parametrize("thickness", [0.05, 0.09, 0.3])
@pytest.mark.parametrize("side", [1, -1])
def test_face_orientation_ignores_the_underside_of_a_slab(thickness, side):
    chest = box((2, 0, 0), (3, 1, 0.8), RED)
    scene = mesh([box((-1, -2, -thickness), (5, 2.5, 0), FLOOR), chest])
    scene = replace(scene, faces=np.ascontiguousarray(scene.faces[:, ::side]))
    corners = scene.points[scene.faces].astype(float)
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    assert _face_orientation(scene, corners, normals) == side


def red_pixels(scene, camera):
    return int((Rasteriser(1).draw(scene, camera, 320, 240).colours == RED).all(axis=2).sum())


def test_table_and_object_on_it_are_separated():
    table, base, screen = (
        box((2, -0.8, 0.7), (3, 0.8, 0.75), GREEN),
        box((2.3, -0.2, 0.75), (2.6, 0.2, 0.765), RED),
        box((2.58, -0.2, 0.765), (2.6, 0.2, 1.0), RED),
    )
    laptop = upright_box((2.3, -0.2, 0.75), (2.6, 0.2, 1.0))
    scene = subdivided(room(table, base, screen))
    camera = AHEAD.turned(up=-12)
    colours = Rasteriser(1).draw(scene, camera, 320, 240).colours
    counts = [int((colours == colour).all(axis=2).sum()) for colour in (GREEN, RED)]
    sightings = visibility_of(scene, upright_box((2, -0.8, 0.7), (3, 0.8, 0.75)), laptop).look(
        camera
    )
    assert [sighting.area for sighting in sightings] == pytest.approx(counts, rel=0.01)


def subdivided(scene):
    """Return the scene with every face split into 1024, because a scan's floor has many faces."""
    points, colours, faces = scene.points, scene.colours, scene.faces
    for _ in range(5):
        a, b, c = (points[faces[:, corner]] for corner in range(3))
        points = np.stack([a, b, c, (a + b) / 2, (b + c) / 2, (c + a) / 2], axis=1).reshape(-1, 3)
        colours = np.repeat(colours[faces[:, 0]], 6, axis=0)
        corners = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]])
        faces = (6 * np.arange(len(faces))[:, None, None] + corners).reshape(-1, 3)
    return replace(scene, points=points, colours=colours, faces=faces.astype(np.int32))


def test_visibility_in_clouds_agrees_with_meshes():
    wall = box((1.5, 0.0, 0.0), (1.6, 2.0, 2.6), BLUE)
    open_view, half_occluded = (
        as_cloud(room_with_target(*more_boxes)) for more_boxes in ((), (wall,))
    )
    sighting = sight_only_box(visibility_of(open_view))
    assert sighting.share == pytest.approx(1.0, abs=0.04)
    assert sighting.area == pytest.approx(red_pixels(open_view, AHEAD), rel=0.02)
    assert sight_only_box(visibility_of(half_occluded)).share == pytest.approx(0.5, abs=0.04)


class DepthOnly:
    """A renderer whose frames have no primitives."""

    name = "depth"

    def __init__(self):
        self.renderer = Rasteriser(1)

    def draw(self, scene, camera, width, height):
        frame = self.renderer.draw(scene, camera, width, height)
        return Frame(frame.colours, frame.depth)

    def close(self):
        self.renderer.close()


def test_depth_only_renderers_give_the_same_result():
    wall = box((1.5, 0.0, 0.0), (1.6, 2.0, 2.6), BLUE)
    scene = room_with_target(wall)
    by_face, by_depth = (
        sight_only_box(visibility_of(scene, renderer=renderer)) for renderer in (None, DepthOnly())
    )
    assert by_depth.area == pytest.approx(by_face.area, rel=0.02)
    assert by_depth.share == pytest.approx(by_face.share, abs=0.02)


def test_downscaled_counting_gives_the_full_size_area():
    scene = room_with_target()
    coarse = sight_only_box(
        ObjectVisibility(Rasteriser(1), scene, [TARGET], (640, 480), max_width=160)
    )
    fine = sight_only_box(
        ObjectVisibility(Rasteriser(1), scene, [TARGET], (640, 480), max_width=640)
    )
    assert coarse.area == pytest.approx(fine.area, rel=0.05)
    assert coarse.share == pytest.approx(fine.share, abs=0.02)


def test_cover_marks_the_pixels_that_are_drawn():
    """Includes faces that extend behind the camera and beyond the image edges."""
    rng = np.random.default_rng(3)
    points = rng.normal(0, 1.5, (120, 3)).astype(np.float32)
    faces = np.arange(120, dtype=np.int32).reshape(-1, 3)
    bounds = np.array([points.min(axis=0), points.max(axis=0)], np.float64)
    colours = np.zeros((120, 3), np.uint8)
    renderer = Rasteriser(threads=1)
    for selected in (np.arange(40), np.array([7]), np.array([], np.intp)):
        scene = Scene("some", points, colours, faces[selected], 0.0, 2.0, bounds)
        camera = Camera((0.2, 0.1, 0.0), 40.0, 10.0, 70.0)
        view = projection(camera, 90, 60)
        covered = np.ones((60, 90), bool)
        cover(points.T, faces, selected, view.matrix, view.near, covered)
        is_drawn = renderer.draw(scene, camera, 90, 60).primitive >= 0
        assert np.array_equal(covered, is_drawn)
        assert is_drawn.any() == bool(len(selected) > 1)
    renderer.close()


def test_without_boxes_there_are_no_sightings():
    assert visibility_of(room_with_target()).with_size((96, 72)).look(AHEAD, []) == []
    assert ObjectVisibility(Rasteriser(1), room_with_target(), [], (96, 72)).look(AHEAD) == []


def test_level_line_seen_edge_on_covers_nothing():
    points = np.array([[2, -0.5, 0], [2, 0, 0], [2, 0.5, 0]], np.float32)
    view = projection(Camera((0.0, 0.0, 0.0)), *SIZE)
    faces = np.array([[0, 1, 2]], np.int32), np.array([0])
    assert angle_of_faces(points, *faces, view.matrix, view.near, *SIZE, 100.0) == 0
