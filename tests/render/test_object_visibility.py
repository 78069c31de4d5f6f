"""What is seen of an object, against counts by rays that share no code with it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from factories import TREE
from factories.rooms import BLUE, GREEN, RED, as_cloud, box, room
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from render_agent.render.projection import projection
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.rasteriser.zbuffer import cover
from render_agent.render.renderer import Frame
from render_agent.render.visibility.object_visibility import Sight, Sighting
from render_agent.scans.boxes import upright
from render_agent.scans.camera import Camera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.room_truth import read_truth
from render_agent.scans.scene import Scene

SCENES = sorted((TREE / "scenes").glob("*.ply"))
SIZE = (160, 120)
POSES = 13
"""Poses in each room: 104 in all eight."""

TOLERANCE = 0.02

LEANING = ("pillow",)
"""Objects that lean into another: the arm of the sofa reaches into the box of its pillow, and no box
tells them apart."""


class Rays:
    """The truth about a bundled room: what each ray hits, by Open3D.

    An object is the connected pieces of the mesh that lie in its box, whole; of boxes one in another
    the smallest, and those less than twice as large. No margin, no rule about what it touches.
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
        for number, one in enumerate(boxes):
            beyond = np.full(count, -np.inf)
            outside = np.abs((self.points - one.centre) @ one.axes.T) - one.size / 2
            np.maximum.at(beyond, label[vertex.reshape(-1)], outside.max(axis=1))
            holds[:, number] = beyond < 0.003
        least = np.where(holds, volumes, np.inf).min(axis=1)
        self.of_box = (holds & (volumes <= 2 * least[:, None]))[piece]  # (faces, boxes)
        self.everything = self.caster(np.ones(len(self.faces), bool))
        self.alone = [self.caster(own) for own in self.of_box.T]

    def caster(self, which):
        import open3d

        tree = open3d.t.geometry.RaycastingScene(nthreads=1)
        faces = self.faces[which].astype(np.uint32)
        tree.add_triangles(open3d.core.Tensor(self.points), open3d.core.Tensor(faces))
        return tree

    def count(self, camera, width, height):
        """Return the pixels and the share of every box."""
        yaw, pitch = math.radians(camera.yaw), math.radians(camera.pitch)
        ahead = np.array([np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)])
        right = np.array([np.sin(yaw), -np.cos(yaw), 0])
        down = np.cross(ahead, right)
        half = math.tan(math.radians(camera.vertical_fov) / 2)
        v, u = np.indices((height, width))
        x = ((u + 0.5) / width * 2 - 1) * half * width / height
        y = ((v + 0.5) / height * 2 - 1) * half
        ways = (ahead + x[..., None] * right + y[..., None] * down).reshape(-1, 3)
        angles = (2 * half / height) ** 2 / np.linalg.norm(ways, axis=1) ** 3
        face, hit = cast(self.everything, camera.position, ways)
        shows = np.zeros((len(ways), len(self.boxes)), bool)
        shows[hit] = self.of_box[face[hit]]
        areas, seen = shows.sum(axis=0), angles @ shows
        return areas, np.array([self.share(n, seen[n], camera.position) for n in range(len(seen))])

    def share(self, number, seen, position, count=12000):
        """Return a seen solid angle as a share of that of the object alone."""
        if not seen:
            return 0.0
        corners = self.boxes[number].grown(0.01).corners - position
        corners /= np.linalg.norm(corners, axis=1)[:, None]
        axis = corners.mean(axis=0)
        axis /= np.linalg.norm(axis)
        least = (corners @ axis).min() if np.linalg.norm(corners.mean(axis=0)) > 0.6 else -1.0
        # directions spread evenly over the cap of the sphere that holds the box (Fibonacci)
        step = np.arange(count) + 0.5
        along, turn = 1 - (1 - least) * step / count, math.pi * (1 + math.sqrt(5)) * step
        side = np.cross(axis, [0.36, 0.48, 0.8])
        side /= np.linalg.norm(side)
        around = np.cos(turn)[:, None] * side + np.sin(turn)[:, None] * np.cross(axis, side)
        ways = along[:, None] * axis + np.sqrt(1 - along**2)[:, None] * around
        whole = cast(self.alone[number], position, ways)[1].mean() * 2 * math.pi * (1 - least)
        return min(1.0, seen / whole)


def inside(box, points):
    """Return which points lie in a box."""
    return (np.abs((points - box.centre) @ box.axes.T) <= box.size / 2).all(axis=1)


def cast(tree, position, ways):
    """Return the face that each ray hits, and whether it hits one."""
    import open3d

    rays = np.concatenate([np.broadcast_to(position, ways.shape), ways], axis=1)
    hits = tree.cast_rays(open3d.core.Tensor(rays.astype(np.float32)), nthreads=1)
    return hits["primitive_ids"].numpy(), np.isfinite(hits["t_hit"].numpy())


def poses(scene, boxes, count):
    """Return cameras anywhere in the free space of a scene, but not in a cabinet, that look anywhere."""
    space, chance = FreeSpace.of(scene), np.random.default_rng(5)
    found = []
    while len(found) < count:
        place = space.nearest_free(chance.uniform(*space.bounds))
        yaw, pitch = chance.uniform(-180, 180), chance.uniform(-40, 20)
        if not any(inside(box, place[None]).any() for box in boxes):
            found.append(Camera(tuple(map(float, place)), yaw, pitch, 59.8))
    return found


@pytest.mark.parametrize(
    "scan",
    [
        scan if number == 6 else pytest.param(scan, marks=pytest.mark.slow)
        for number, scan in enumerate(SCENES)
    ],
    ids=lambda scan: scan.stem,
)
def test_area_and_share_agree_with_rays(scan):
    scene = load_scene(scan, scan.stem)
    things = read_truth(scan.with_suffix(".json")).objects
    boxes = [thing.box for thing in things]
    rays, sight = Rays(scene, boxes), Sight(Rasteriser(1), scene, boxes, SIZE)
    known = [number for number, thing in enumerate(things) if thing.label not in LEANING]
    compared = hidden = 0
    for camera in poses(scene, boxes, POSES):
        areas, shares = rays.count(camera, *SIZE)
        for number, seen in zip(known, sight.look(camera, known), strict=True):
            which = things[number].label, camera
            assert seen.area == pytest.approx(areas[number], rel=TOLERANCE, abs=2), which
            assert seen.share == pytest.approx(shares[number], abs=TOLERANCE), which
            compared += areas[number] > 0
            hidden += 0 < shares[number] < 0.7
    assert compared >= 3 * POSES
    assert hidden >= POSES


AHEAD = Camera((0.0, 0.0, 1.2), 0.0, 0.0, 60.0)
TARGET = upright((3, -0.4, 0.6), (3.5, 0.4, 1.6))


def one(sight, camera=AHEAD):
    (seen,) = sight.look(camera)
    return seen


def target(*others):
    """Return a room with a red object ahead, and others."""
    return room(box((3, -0.4, 0.6), (3.5, 0.4, 1.6), RED), *others)


def sight_of(scene, *boxes, size=(320, 240), renderer=None):
    return Sight(renderer or Rasteriser(1), scene, boxes or (TARGET,), size)


def test_an_object_with_nothing_in_the_way_is_seen_whole():
    seen = one(Sight(Rasteriser(1), target(), [TARGET], (640, 480), widest=640))
    assert seen.share == pytest.approx(1.0, abs=0.01)
    assert seen.distance == pytest.approx(3.0)
    focal = 240 / math.tan(math.radians(30))
    assert seen.area == pytest.approx(0.8 * focal / 3 * focal / 3, rel=0.02)


def test_half_of_an_object_behind_a_wall_is_seen():
    wall = box((1.5, 0.0, 0.0), (1.6, 2.0, 2.6), BLUE)
    assert one(sight_of(target(wall))).share == pytest.approx(0.5, abs=0.02)


def test_an_object_behind_the_camera_is_not_seen():
    assert one(sight_of(target()), AHEAD.turned(180)) == Sighting(
        0, 0, 0.0, 0.0, pytest.approx(3.0)
    )


def test_in_the_midst_of_an_object():
    hollow = upright((-0.6, -0.6, 0.2), (0.6, 0.6, 2.2))
    scene = room(box(hollow.bounds[0], hollow.bounds[1], RED))
    seen = one(sight_of(scene, hollow))
    assert seen.distance == 0
    assert seen.area == 320 * 240
    focal, half = AHEAD.focal(240), (160, 120)
    # the solid angle of a rectangle, as part of the sphere that an object all around takes
    u, v = (side / focal for side in half)
    angle = 4 * math.atan(u * v / math.sqrt(1 + u * u + v * v))
    assert seen.share == pytest.approx(angle / (4 * math.pi), rel=0.02)


ON_THE_WALL = upright((4.98, -0.5, 1.0), (5.0, 0.3, 1.6))
ON_THE_FLOOR = upright((2.0, -1.0, 0.0), (3.5, 0.8, 0.01))
FLAT = {"picture": (ON_THE_WALL, -2.0), "rug": (ON_THE_FLOOR, -20.0)}


@pytest.mark.parametrize("name", FLAT)
def test_neither_floor_nor_wall_belongs_to_what_lies_on_it(name):
    one_box, pitch = FLAT[name]
    scene = finely(room(box(one_box.bounds[0], one_box.bounds[1], RED)))
    camera = AHEAD.turned(up=pitch)
    red = red_pixels(scene, camera)
    assert red > 500
    assert one(sight_of(scene, one_box), camera).area == pytest.approx(red, rel=0.005)


def red_pixels(scene, camera):
    return int((Rasteriser(1).draw(scene, camera, 320, 240).colours == RED).all(axis=2).sum())


def test_what_stands_on_a_table_and_the_table():
    table, base, screen = (
        box((2, -0.8, 0.7), (3, 0.8, 0.75), GREEN),
        box((2.3, -0.2, 0.75), (2.6, 0.2, 0.765), RED),
        box((2.58, -0.2, 0.765), (2.6, 0.2, 1.0), RED),
    )
    laptop = upright((2.3, -0.2, 0.75), (2.6, 0.2, 1.0))
    scene = finely(room(table, base, screen))
    camera = AHEAD.turned(up=-12)
    colours = Rasteriser(1).draw(scene, camera, 320, 240).colours
    counts = [int((colours == colour).all(axis=2).sum()) for colour in (GREEN, RED)]
    seen = sight_of(scene, upright((2, -0.8, 0.7), (3, 0.8, 0.75)), laptop).look(camera)
    assert [one.area for one in seen] == pytest.approx(counts, rel=0.01)


def finely(scene):
    """Return the same scene with every face cut into sixteen, as a scan's floor is of many."""
    points, colours, faces = scene.points, scene.colours, scene.faces
    for _ in range(5):
        a, b, c = (points[faces[:, corner]] for corner in range(3))
        points = np.stack([a, b, c, (a + b) / 2, (b + c) / 2, (c + a) / 2], axis=1).reshape(-1, 3)
        colours = np.repeat(colours[faces[:, 0]], 6, axis=0)
        corners = np.array([[0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5]])
        faces = (6 * np.arange(len(faces))[:, None, None] + corners).reshape(-1, 3)
    return replace(scene, points=points, colours=colours, faces=faces.astype(np.int32))


def test_objects_of_clouds_are_seen_as_those_of_meshes():
    wall = box((1.5, 0.0, 0.0), (1.6, 2.0, 2.6), BLUE)
    whole, half = (as_cloud(target(*others)) for others in ((), (wall,)))
    seen = one(sight_of(whole))
    assert seen.share == pytest.approx(1.0, abs=0.04)
    assert seen.area == pytest.approx(red_pixels(whole, AHEAD), rel=0.02)
    assert one(sight_of(half)).share == pytest.approx(0.5, abs=0.04)


class DepthOnly:
    """A renderer that does not know what lies under a pixel."""

    name = "depth"

    def __init__(self):
        self.renderer = Rasteriser(1)

    def draw(self, scene, camera, width, height):
        frame = self.renderer.draw(scene, camera, width, height)
        return Frame(frame.colours, frame.depth)

    def close(self):
        self.renderer.close()


def test_depth_alone_tells_the_same():
    wall = box((1.5, 0.0, 0.0), (1.6, 2.0, 2.6), BLUE)
    scene = target(wall)
    by_face, by_depth = (one(sight_of(scene, renderer=each)) for each in (None, DepthOnly()))
    assert by_depth.area == pytest.approx(by_face.area, rel=0.02)
    assert by_depth.share == pytest.approx(by_face.share, abs=0.02)


def test_counting_coarsely_gives_the_area_of_the_whole_picture():
    scene = target()
    coarse = one(Sight(Rasteriser(1), scene, [TARGET], (640, 480), widest=160))
    fine = one(Sight(Rasteriser(1), scene, [TARGET], (640, 480), widest=640))
    assert coarse.area == pytest.approx(fine.area, rel=0.05)
    assert coarse.share == pytest.approx(fine.share, abs=0.02)


def test_what_faces_cover_is_where_they_are_drawn():
    """Also of faces that reach behind the camera and beyond every edge of the picture."""
    chance = np.random.default_rng(3)
    points = chance.normal(0, 1.5, (120, 3)).astype(np.float32)
    faces = np.arange(120, dtype=np.int32).reshape(-1, 3)
    bounds = np.array([points.min(axis=0), points.max(axis=0)], np.float64)
    colours = np.zeros((120, 3), np.uint8)
    renderer = Rasteriser(threads=1)
    for which in (np.arange(40), np.array([7]), np.array([], np.intp)):
        scene = Scene("some", points, colours, faces[which], 0.0, 2.0, bounds)
        camera = Camera((0.2, 0.1, 0.0), 40.0, 10.0, 70.0)
        view = projection(camera, 90, 60)
        covered = np.ones((60, 90), bool)
        cover(points.T, faces, which, view.matrix, view.near, covered)
        drawn = renderer.draw(scene, camera, 90, 60).primitive >= 0
        assert np.array_equal(covered, drawn)
        assert drawn.any() == bool(len(which) > 1)
    renderer.close()


def test_without_boxes_nothing_is_looked_for():
    assert sight_of(target()).sized((96, 72)).look(AHEAD, []) == []
    assert Sight(Rasteriser(1), target(), [], (96, 72)).look(AHEAD) == []
