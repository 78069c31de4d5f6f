"""Bounds, floor and ceiling of synthetic rooms with known heights, and of real scans."""

import numpy as np
import pytest
from conftest import mostly_slow, test_data
from factories.scans import XYZ, block, joined, mesh_ply, ply, rectangle, room, sample_points

from render_agent.scans.extent import measure_extent
from render_agent.scans.formats.cleaning import Scan, clean_scan
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace

FURNITURE = (block((1, 1, 0), (2.5, 2, 0.75)), block((5, 0.2, 0), (5.8, 2.2, 2.1)))


def extent_of(points, faces=None):
    return measure_extent(clean_scan(Scan(np.asarray(points), None, faces), "synthetic"))


def moved(mesh, offset):
    return mesh[0] + np.asarray(offset, float), mesh[1]


@pytest.mark.parametrize("height", [0.0, -1.35, 37.2])
def test_furnished_room_as_mesh(height):
    points, faces = moved(room(*FURNITURE), (-2, 3, height))
    result = extent_of(points, faces)
    assert result.floor == pytest.approx(height, abs=1e-4)
    assert result.ceiling == pytest.approx(height + 2.7, abs=1e-4)
    assert np.allclose(result.bounds, [[-2, 3, height], [4, 7, height + 2.7]], atol=1e-4)


@pytest.mark.parametrize("height", [0.0, -1.35, 37.2])
def test_furnished_room_as_noisy_cloud(height):
    points = sample_points(*moved(room(*FURNITURE), (-2, 3, height)), 60_000)
    points += np.random.default_rng(3).normal(scale=0.01, size=points.shape)
    result = extent_of(points)
    assert result.floor == pytest.approx(height, abs=0.03)
    assert result.ceiling == pytest.approx(height + 2.7, abs=0.03)
    assert np.allclose(result.bounds, [[-2, 3, height], [4, 7, height + 2.7]], atol=0.1)


def test_outlier_points_have_no_effect():
    points = sample_points(*room(*FURNITURE), 60_000)
    outliers = np.random.default_rng(4).uniform(-50, 50, (600, 3))
    clean, noisy = extent_of(points), extent_of(np.concatenate([points, outliers]))
    assert np.allclose(clean.bounds, noisy.bounds, atol=0.6)
    assert noisy.floor == pytest.approx(clean.floor, abs=0.02)
    assert noisy.ceiling == pytest.approx(clean.ceiling, abs=0.02)


def test_outlier_faces_and_spikes_have_no_effect():
    points, faces = room(*FURNITURE)
    debris = [
        moved(rectangle((0, 0, 0), (0.05, 0.05, 0)), at)
        for at in [(50, 0, 0), (0, -50, 9), (3, 2, -50)]
    ]
    spiked, corners = joined((points, faces), *debris)
    spiked = np.concatenate([spiked, [[50, 2, 1], [0, 2, 1], [0, 2.05, 1]]])
    corners = np.concatenate([corners, [[len(spiked) - 3, len(spiked) - 2, len(spiked) - 1]]])
    result = extent_of(spiked, corners)
    assert np.allclose(result.bounds, [[0, 0, 0], [6, 4, 2.7]], atol=0.15)
    assert result.floor == pytest.approx(0, abs=1e-4)
    assert result.ceiling == pytest.approx(2.7, abs=1e-4)


def test_without_a_ceiling_the_top_of_the_scan_is_used():
    shell = [rectangle(low, high) for low, high in [
        ((0, 0, 0), (6, 4, 0)), ((0, 0, 0), (0, 4, 2.4)), ((6, 0, 0), (6, 4, 2.4)), ((0, 0, 0), (6, 0, 2.4)),
    ]]  # fmt: skip
    result = extent_of(*joined(*shell, *FURNITURE))
    assert result.floor == 0
    assert result.ceiling == result.bounds[1, 2] == pytest.approx(2.4)


def test_two_storeys_give_the_lowest_floor_and_its_own_ceiling():
    storeys = [room(), moved(room(), (0, 0, 2.9))]
    result = extent_of(*joined(*storeys))
    assert (result.floor, result.ceiling) == pytest.approx((0, 2.7), abs=1e-4)
    assert result.bounds[1, 2] == pytest.approx(5.6, abs=1e-4)


WALLS = tuple(
    block(low, high)
    for low, high in [
        ((-0.2, -0.2, 0), (0, 4.2, 2.6)), ((6, -0.2, 0), (6.2, 4.2, 2.6)),
        ((0, -0.2, 0), (6, 0, 2.6)), ((0, 4, 0), (6, 4.2, 2.6)),
    ]
)  # fmt: skip
THICKNESSES = (0.05, 0.08, 0.12, 0.2, 0.3, 0.5)


def slab(top, thickness):
    """Return a slab under the whole house, walls included."""
    return block((-0.2, -0.2, top - thickness), (6.2, 4.2, top))


def house(thickness, *parts):
    """Return a modelled house: its floor at 0 and its ceiling at 2.6 are the inner sides of slabs."""
    return joined(slab(0, thickness), slab(2.6 + thickness, thickness), *WALLS, *parts)


def oriented_outward(mesh):
    """Return a mesh of convex parts with every face looking out of its part."""
    points, faces = mesh
    faces = faces.copy()
    for first in range(0, len(faces), 12):  # a block has twelve faces
        part = points[faces[first : first + 12]]
        normals = np.cross(part[:, 1] - part[:, 0], part[:, 2] - part[:, 0])
        inwards = ((part.mean(1) - part.mean((0, 1))) * normals).sum(1) < 0
        faces[first : first + 12][inwards] = faces[first : first + 12][inwards][:, ::-1]
    return points, faces


def scene_of(mesh, kind, folder):
    """Return the scene of a file: a mesh that looks outwards, inwards or at random, or a cloud."""
    return scene_of_parts(oriented_outward(mesh), kind, folder)


def scene_of_parts(mesh, kind, folder):
    """Return the scene of a mesh whose faces look outwards already."""
    points, faces = mesh
    if kind == "inside out":
        faces = faces[:, ::-1]
    elif kind == "random faces":
        turned = np.random.default_rng(5).random(len(faces)) < 0.5
        faces = np.where(turned[:, None], faces[:, ::-1], faces)
    path = folder / "scan.ply"
    if kind == "cloud":
        cloud = sample_points(points, faces, 30_000)
        cloud += np.random.default_rng(6).normal(scale=0.003, size=cloud.shape)
        path.write_bytes(ply([("vertex", XYZ, cloud)]))
    else:
        path.write_bytes(mesh_ply(points, faces))
    return load_scene(path)


KINDS = ("outward", "inside out", "random faces", "cloud")
HOUSES = {
    "empty": (),
    "furnished": (block((1, 1, 0), (2.5, 2, 0.75)), block((3, 0.2, 0), (5, 2.0, 0.45)), block((5, 3, 0), (5.8, 3.9, 2.1))),
    "carpet": (block((1, 1, 0), (4, 3, 0.015)),),
    "platform": (block((0, 0, 0), (2, 4, 0.3)),),
    "gallery": (block((0, 0, 2.0), (1.8, 4, 2.1)),),
    "lowered ceiling": (block((0, 0, 2.35), (2.2, 4, 2.4)),),
    "flat roof": (slab(3.3, 0.2),),
    "step": (block((0, 0, -0.1), (3, 4, 0.1)),),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", mostly_slow(HOUSES, "furnished", "platform", "lowered ceiling"))
def test_a_floor_is_the_top_of_its_slab_and_a_ceiling_the_underside(name, kind, tmp_path):
    rounding = 0.02 if kind == "cloud" else 1e-4
    for thickness in THICKNESSES if kind == "outward" else THICKNESSES[1::2]:
        scene = scene_of(house(thickness, *HOUSES[name]), kind, tmp_path)
        assert scene.floor == pytest.approx(0, abs=rounding), thickness
        assert scene.ceiling == pytest.approx(2.6, abs=rounding), thickness
    assert FreeSpace.of(scene).start_position()[2] == pytest.approx(1.6, abs=0.03)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("thickness", mostly_slow(THICKNESSES, 0.05, 0.2))
def test_two_storeys_of_slabs(kind, thickness, tmp_path):
    upper = tuple(moved(wall, (0, 0, 2.6 + thickness)) for wall in WALLS)
    top = 2 * (2.6 + thickness) + thickness
    mesh = house(thickness, *upper, slab(top, thickness))
    scene = scene_of(mesh, kind, tmp_path)
    rounding = 0.06 if kind == "cloud" and thickness == 0.05 else 0.02
    assert scene.floor == pytest.approx(0, abs=rounding)
    assert scene.ceiling == pytest.approx(2.6, abs=rounding)
    space = FreeSpace.of(scene)
    assert space.bounds[1, 2] > top - 0.5  # the upper storey may be walked, too
    assert space.nearest_free((3, 2, 4.5))[2] == pytest.approx(4.5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_double_floor_and_a_wall_to_wall_carpet(kind, tmp_path):
    screed, carpet = block((0, 0, 0), (6, 4, 0.12)), block((0, 0, 0.12), (6, 4, 0.16))
    scene = scene_of(house(0.3, screed, carpet), kind, tmp_path)
    assert scene.floor == pytest.approx(0.16, abs=0.045)


@pytest.mark.parametrize("kind", KINDS)
def test_the_underside_of_a_pitched_roof_is_no_floor_and_the_ceiling_stays(kind, tmp_path):
    ridge = [
        [-0.2, -0.2, 2.9],
        [6.2, -0.2, 2.9],
        [6.2, 4.2, 2.9],
        [-0.2, 4.2, 2.9],
        [-0.2, 2, 5],
        [6.2, 2, 5],
    ]
    roof = (
        np.array(ridge, float),
        np.array([[0, 1, 5], [0, 5, 4], [2, 3, 4], [2, 4, 5], [0, 4, 3], [1, 2, 5]] * 2),
    )
    scene = scene_of(house(0.3, roof), kind, tmp_path)
    assert (scene.floor, scene.ceiling) == pytest.approx((0, 2.6), abs=0.02)


def random_house(rng):
    """Return a row of furnished rooms with a floor slab each, and the heights of its floor and ceiling."""
    thickness, height = rng.choice(THICKNESSES), rng.uniform(2.2, 3.2)
    wall, depth, level = rng.uniform(0.1, 0.35), rng.uniform(2.5, 6), rng.uniform(-2, 3)
    parts, x = [], 0.0
    for width in rng.uniform(2, 6, rng.integers(1, 5)):
        end = x + width
        parts += [
            block((x, 0, -thickness), (end, depth, 0)),
            block((x - wall, -wall, -thickness), (x, depth + wall, height)),
            block((x, -wall, 0), (end, 0, height)),
            block((x, depth, 0), (end, depth + wall, height)),
        ]
        for _ in range(rng.integers(0, 6)):
            low = np.array([rng.uniform(x, end - 0.6), rng.uniform(0, depth - 0.6), 0])
            size = [*rng.uniform(0.3, 2, 2), rng.choice([0.4, 0.75, 0.9, 2.0])]
            parts.append(block(low, np.minimum(low + size, [end, depth, height])))
        x = end + wall
    parts.append(block((-wall, -wall, height), (x, depth + wall, height + rng.choice(THICKNESSES))))
    if rng.random() < 0.5:  # a foundation under all slabs
        parts.append(block((-wall, -wall, -thickness - 0.1), (x, depth + wall, -thickness)))
    return moved(joined(*parts), (0, 0, level)), level, level + height


@pytest.mark.parametrize("kind", KINDS)
def test_floor_and_ceiling_of_random_houses(kind, tmp_path):
    rng = np.random.default_rng(KINDS.index(kind))
    rounding = (
        0.08 if kind == "cloud" else 0.03
    )  # a thin slab's two sides are one peak of a noisy cloud
    for _ in range(8):
        mesh, floor, ceiling = random_house(rng)
        scene = scene_of(mesh, kind, tmp_path)
        assert scene.floor == pytest.approx(floor, abs=rounding)
        assert scene.ceiling == pytest.approx(ceiling, abs=rounding)


@pytest.mark.parametrize("sigma", [0.01, 0.02, 0.03])
@pytest.mark.parametrize("thickness", THICKNESSES)
def test_slabs_in_noisy_clouds(thickness, sigma):
    """Of a slab that is thinner than the noise is wide, both sides are one peak."""
    points, faces = house(thickness, *HOUSES["furnished"])
    cloud = sample_points(points, faces, 80_000)
    cloud += np.random.default_rng(7).normal(scale=sigma, size=cloud.shape)
    result = extent_of(cloud)
    rounding = 0.02 + sigma + (thickness if thickness < 4 * sigma else 0)
    assert result.floor == pytest.approx(0, abs=rounding)
    assert result.ceiling == pytest.approx(2.6, abs=rounding)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_slab", [False, True])
@pytest.mark.parametrize("depth", mostly_slow([0.3, 1.0, 1.5, 3.0], 0.3, 3.0))
def test_ground_is_as_thick_as_it_likes(depth, with_slab, kind, tmp_path):
    """A house on a solid block that is larger than the house; the block's underside is no floor."""
    if depth > 1.8 and kind != "outward":
        pytest.skip("only the direction of faces tells thick ground from an empty storey")
    level = -0.2 if with_slab else 0.0
    ground = block((-3, -3, level - depth), (9, 7, level))
    parts = [slab(0, 0.2)] if with_slab else []
    mesh = joined(ground, *parts, slab(2.8, 0.2), *WALLS, *HOUSES["furnished"])
    scene = scene_of(mesh, kind, tmp_path)
    assert (scene.floor, scene.ceiling) == pytest.approx((0, 2.6), abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drop", mostly_slow([0.0, 0.1, 0.3, 0.5, 1.0], 0.0, 0.3))
def test_the_floor_of_a_house_on_open_ground_is_the_one_under_its_roof(drop, kind, tmp_path):
    sizes = (8, 30) if kind == "outward" else (8,)
    for size in sizes:
        terrain = rectangle((-size, -size, -drop), (6 + size, 4 + size, -drop))
        mesh = joined(terrain, oriented_outward(house(0.2, *HOUSES["furnished"])))
        scene = scene_of_parts(mesh, kind, tmp_path)
        assert (scene.floor, scene.ceiling) == pytest.approx((0, 2.6), abs=0.03), size


def test_furniture_of_a_room_without_a_ceiling_is_no_roof():
    walls = [block(low, high) for low, high in [((0, 0, 0), (0.1, 8, 2.5)), ((0, 0, 0), (9, 0.1, 2.5))]]  # fmt: skip
    shelf = [block((x, 0.1, z), (x + 1.0, 0.6, z + 0.02)) for x in range(8) for z in (0.1, 0.5, 1, 1.5, 2.2)]  # fmt: skip
    result = extent_of(*joined(rectangle((0, 0, 0), (9, 8, 0)), *walls, *shelf))
    assert result.floor == 0


def test_low_objects_without_headroom_stand_on_their_lowest_level():
    result = extent_of(*block((0, 0, 0), (1.2, 0.8, 0.75)))
    assert result.floor == 0


@pytest.mark.parametrize(
    ("name", "floor", "ceiling", "size"),
    [
        pytest.param(
            *("aws_small_house.ply", (-0.01, 0.01), (2.9, 3.01), (19, 11.4, 3)),
            marks=pytest.mark.slow,
        ),
        ("icl_redwood_livingroom1.ply", (-0.01, 0.01), (1.5, 1.6), (3.94, 1.96, 1.57)),
        ("pcl_room_scan_nocolour.ply", (-1.36, -1.2), (1.6, 1.72), (11.3, 9.8, 3.06)),
    ],
)
def test_extent_of_real_scans(name, floor, ceiling, size):
    scene = load_scene(test_data("scenes", name))
    assert floor[0] <= scene.floor <= floor[1]
    assert ceiling[0] <= scene.ceiling <= ceiling[1]
    assert np.allclose(scene.bounds[1] - scene.bounds[0], size, atol=0.1)
    assert scene.is_cloud == name.startswith("pcl")
    reloaded = load_scene(test_data("scenes", name))
    assert np.array_equal(scene.colours, reloaded.colours)
    assert scene.colours.std() > 10


def test_large_walls_count_next_to_many_small_faces(monkeypatch):
    from render_agent.scans import extent as module

    monkeypatch.setattr(module, "MAX_FACES", 100)
    points, faces = room()
    small = np.random.default_rng(9).uniform((2, 1, 0.4), (3, 2, 0.6), (3000, 1, 3))
    corners = (small + np.random.default_rng(10).uniform(0, 0.02, (3000, 3, 3))).reshape(-1, 3)
    result = extent_of(*joined((points, faces), (corners, np.arange(9000).reshape(-1, 3))))
    assert np.allclose(result.bounds, [[0, 0, 0], [6, 4, 2.7]], atol=1e-5)
    assert (result.floor, result.ceiling) == pytest.approx((0, 2.7), abs=1e-4)
