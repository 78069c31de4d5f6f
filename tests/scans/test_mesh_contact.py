"""Contact of boxes and points with a mesh, compared with linear programs and with Open3D's rays."""

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from factories.changes import changeable_room
from factories.physics import ray_scene
from factories.scenes import RED, box, joined
from scipy.optimize import linprog

from render_agent.parts.counterfactual.room import ChangeableRoom, NoCounterpartError
from render_agent.scans.boxes import OrientedBox, upright_box
from render_agent.scans.free_space.mesh_contact import MeshContact, heights_at, reach_into
from render_agent.tasks.ground_truth import Facts
from render_agent.tasks.scene_reader import read_scene


def random_box(rng):
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    return OrientedBox(rng.uniform(-1, 1, 3), rng.uniform(0.1, 1.5, 3), turn)


def has_common_point(triangle, box):
    """Return whether a convex combination of the corners is inside the box."""
    local = box.local(triangle).T
    limits = np.concatenate([local, -local])
    sizes = np.tile(box.size / 2, 2)
    return linprog(np.zeros(3), limits, sizes, np.ones((1, 3)), [1.0]).status == 0


def test_reach_into_agrees_with_a_linear_program():
    rng = np.random.default_rng(5)
    results = []
    for _ in range(40):
        box, triangles = random_box(rng), rng.uniform(-2, 2, (20, 3, 3))
        triangles[0] = triangles[0, :1]  # a point
        triangles[1, 2] = triangles[1, 1]  # a segment
        reach = reach_into(triangles, box)
        assert reach.tolist() == [has_common_point(triangle, box) for triangle in triangles]
        results.extend(reach)
    assert 100 < sum(results) < 700


def test_heights_agree_with_rays():
    rng = np.random.default_rng(6)
    triangles, points = rng.uniform(-1, 1, (60, 3, 3)), rng.uniform(-1, 1, (200, 2))
    heights = heights_at(points, triangles)
    rays = np.column_stack([points, np.full(200, 2.0), np.tile((0, 0, -1), (200, 1))])
    counts = ray_scene(triangles).count_intersections(rays.astype(np.float32)).numpy()
    assert (np.isfinite(heights).sum(1) == counts).all()
    highest = 2 - ray_scene(triangles).cast_rays(rays.astype(np.float32))["t_hit"].numpy()
    is_hit = counts > 0
    assert np.nanmax(heights[is_hit], axis=1) == pytest.approx(highest[is_hit], abs=1e-5)


def test_owners_do_not_depend_on_the_size_of_faces():
    corners = np.array([[(0, 0, 0), (4, 0, 0), (0, 4, 0)], [(1, 1, 0.5), (1.1, 1, 0.5), (1, 1.1, 0.5)]], float)  # fmt: skip
    mesh = MeshContact(corners, np.array([7, 8]))
    assert mesh.owners_inside(upright_box((1, 1, -0.1), (1.2, 1.2, 0.6))) == {7, 8}
    assert mesh.owners_inside(upright_box((1, 1, 0.1), (1.2, 1.2, 0.4))) == set()
    assert mesh.owners_at(np.array([(1.02, 1.02, 0.01), (3.5, 3.5, 0.0)]), 0.02) == [{7}, set()]


@pytest.fixture(scope="module")
def room_file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("contact")
    changeable_room(folder)
    return folder / "room.ply"


def room_with(room_file, **objects):
    """Return the room of `changeable_room` with more objects: (parts, low, high), each part being two corners."""
    scene = read_scene(room_file, "room")
    truth = json.loads(room_file.with_suffix(".json").read_text())["object_bbox"]
    boxes = {name: [upright_box(b["min"], b["max"]) for b in group] for name, group in truth.items()}  # fmt: skip
    parts = []
    for name, corners in objects.items():
        parts += [box(low, high, RED) for low, high in corners]
        low, high = np.min([c[0] for c in corners], 0), np.max([c[1] for c in corners], 0)
        boxes[name] = [upright_box(low, high)]
    points, colours, faces = joined((scene.points, scene.colours, scene.faces), *parts)
    scene = replace(scene, points=points, colours=colours, faces=faces)
    facts = Facts({name: len(group) for name, group in boxes.items()}, 20.0, boxes)
    return ChangeableRoom(facts, lambda: scene)


def test_swapped_objects_do_not_reach_through_the_wall(room_file):
    """A deeper object that replaces one at the wall is moved away from the wall, no farther than needed."""
    room = room_with(room_file, cup=[((0.02, 1.9, 0), (0.1, 2.0, 0.1))])
    chair, sofa, cup = ("chair", 0), ("sofa", 0), ("cup", 0)
    for entry in (chair, sofa):
        x, y, _ = room.boxes[cup].centre - room.boxes[entry].centre
        assert not room.fits(entry, (x, y, 0.0), {entry, cup}, None)
    chair_shift, cup_shift = room.swap(chair, cup)
    assert 0 < room.boxes[chair].bounds[0, 0] + chair_shift[0] < 0.3
    assert room.boxes[cup].centre + cup_shift == pytest.approx(np.array([0.8, 0.8, 0.05]))  # fmt: skip
    assert room.swap(sofa, cup) is None


def test_object_rests_on_the_surface_of_its_support_and_not_on_its_box(room_file):
    """A couch has a seat and a back: its box is as high as the back."""
    couch = [((1.5, 2.0, 0), (3.5, 2.4, 0.4)), ((1.5, 2.4, 0), (3.5, 2.6, 0.9))]
    room = room_with(room_file, couch=couch, vase=[((1.7, 2.1, 0.4), (1.8, 2.2, 0.6))])
    vase = ("vase", 0)
    assert room.support(vase) == ("couch", 0)
    assert room.fits(vase, (1.0, 0.0, 0.0), {vase}, ("couch", 0))
    assert not room.fits(vase, (1.0, 0.25, 0.0), {vase}, ("couch", 0))  # inside the back
    assert not room.fits(vase, (1.75, 0.0, 0.0), {vase}, ("couch", 0))  # half over the end
    assert not room.fits(vase, (1.0, 0.0, 0.3), {vase}, ("couch", 0))  # in the air
    for x, y, z in room.places(vase, random.Random(1)):
        low, high = room.boxes[vase].bounds + np.array([x, y, z])
        on_seat = z == 0 and low[1] >= 2.0 and high[1] <= 2.4 + 1e-9
        assert on_seat or abs(low[2]) < 1e-6


def test_object_under_the_top_of_its_support_cannot_be_left_behind(room_file):
    """A bed with a high headboard still supports the pillow far below the top of its box."""
    bed = [((1.5, 1.5, 0), (3.5, 2.8, 0.5)), ((3.5, 1.5, 0), (3.6, 2.8, 1.4))]
    room = room_with(room_file, bed=bed, pillow=[((3.0, 1.6, 0.5), (3.4, 2.2, 0.6))])
    assert room.support(("pillow", 0)) == ("bed", 0)
    with pytest.raises(NoCounterpartError, match="supports another object"):
        room.loose("bed")
