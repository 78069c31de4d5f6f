"""glTF: skins, morph targets, instances, hidden nodes, emission, splats, padding and versions."""

import json
import struct

import numpy as np
import pytest
from factories.gltf import Gltf, splat_gltf, spz_gltf
from factories.scans import block
from factories.splats import random_splat, spz
from scipy.spatial.transform import Rotation

from render_agent.errors import SceneError
from render_agent.scans.formats.load import UNCOLOURED_NOTE, load_scene, read_scan

POINTS, FACES = block((0, 0, 0), (4, 2.6, 3))
BLACK = {"baseColorFactor": [0, 0, 0, 1]}


def scene_of(tmp_path, gltf):
    path = tmp_path / "scan.glb"
    path.write_bytes(gltf if isinstance(gltf, bytes) else gltf.glb())
    return load_scene(path)


def size(scene):
    return np.ptp(scene.points, axis=0)


def with_skin(gltf, joints, inverses=None):
    gltf.tree["skins"] = [{"joints": joints}]
    if inverses is not None:
        matrices = np.asarray(inverses).transpose(0, 2, 1).reshape(-1, 16)
        gltf.tree["skins"][0]["inverseBindMatrices"] = gltf.accessor(matrices)


def test_skin_follows_its_joints_and_not_its_node(tmp_path):
    gltf = Gltf(
        {"mesh": 0, "skin": 0, "scale": [2, 2, 2], "translation": [9, 9, 9]},
        {"translation": [1, 0, 0], "scale": [1, 1, 2], "children": [2]},
        {"translation": [0, 5, 0]},
        scenes=[{"nodes": [0, 1]}],
    )
    left = POINTS[:, 0] < 2
    shares = np.column_stack([left, ~left, left * 0, left * 0]).astype(float)
    joints = np.tile([0, 1, 0, 0], (len(POINTS), 1))
    gltf.mesh(
        POINTS, FACES, JOINTS_0=gltf.accessor(joints, "u1"), WEIGHTS_0=gltf.accessor(shares * 3)
    )
    inverse = np.eye(4)
    inverse[0, 3] = -1
    with_skin(gltf, [1, 2], [inverse, inverse])
    scan = read_scan(write(tmp_path, gltf))
    x, y, z = POINTS.T
    expected = np.column_stack([x, y + np.where(left, 0, 5), 2 * z])
    assert np.allclose(scan.points, expected[:, [0, 2, 1]] * [1, -1, 1])
    assert not scan.notes


def write(tmp_path, gltf):
    path = tmp_path / "scan.glb"
    path.write_bytes(gltf.glb())
    return path


def test_default_morph_weights_are_applied(tmp_path):
    for node_weights, shared, expected in ((None, [0.5], 5), ([1.0], [0.5], 6), (None, None, 4)):
        gltf = Gltf({"mesh": 0} | ({"weights": node_weights} if node_weights else {}))
        gltf.mesh(POINTS, FACES, targets=[np.column_stack([POINTS[:, 0] / 2, POINTS[:, 1:] * 0])])
        if shared:
            gltf.tree["meshes"][0]["weights"] = shared
        assert np.allclose(size(scene_of(tmp_path, gltf)), [expected, 3, 2.6])


def test_instances_are_placed_by_their_attributes(tmp_path):
    gltf = Gltf({"mesh": 0, "translation": [0, 0, 1], "extensions": {}})
    gltf.mesh(POINTS, FACES, COLOR_0=np.full((len(POINTS), 3), 1.0))
    turn = Rotation.from_euler("y", 90, degrees=True).as_quat()
    attributes = {
        "TRANSLATION": gltf.accessor([[0, 0, 0], [10, 0, 0]]),
        "ROTATION": gltf.accessor(np.rint(np.array([[0, 0, 0, 1], turn]) * 127), "i1", True),
        "SCALE": gltf.accessor([[1, 1, 1], [-1, 1, 1]]),
    }
    gltf.tree["nodes"][0]["extensions"]["EXT_mesh_gpu_instancing"] = {"attributes": attributes}
    gltf.tree["extensionsRequired"] = ["EXT_mesh_gpu_instancing"]
    scene = scene_of(tmp_path, gltf)
    assert len(scene.points) == 2 * len(POINTS)
    assert np.allclose(size(scene), [13, 4, 2.6], atol=0.05)
    assert len(np.unique(scene.faces)) == 2 * len(POINTS)


def test_hidden_nodes_and_their_children_are_not_read(tmp_path):
    hidden = {"extensions": {"KHR_node_visibility": {"visible": False}}, "children": [2]}
    gltf = Gltf({"mesh": 0}, hidden, {"mesh": 1}, scenes=[{"nodes": [0, 1]}])
    gltf.mesh(POINTS, FACES)
    gltf.mesh(POINTS + 20, FACES)
    gltf.tree["meshes"][1]["name"] = "draft"
    scene = scene_of(tmp_path, gltf)
    assert np.allclose(size(scene), [4, 3, 2.6])
    assert any("mesh draft" in note for note in scene.notes)


EMISSION = [
    ({"baseColorFactor": [0, 0, 0, 1]}, None, [1, 0, 0], None, (255, 0, 0)),
    ({"baseColorFactor": [0, 0, 0, 1]}, None, [1, 1, 1], (200, 60, 20), (200, 60, 20)),
    ({}, (0, 0, 0), [1, 1, 1], (200, 60, 20), (200, 60, 20)),
    ({}, (0, 200, 0), [1, 1, 1], (200, 60, 20), (0, 200, 0)),
    ({"baseColorFactor": [0, 0, 0, 1]}, None, [0, 0, 0], (200, 60, 20), (0, 0, 0)),
    ({"baseColorFactor": [0, 0, 0, 1]}, None, [0.2, 0, 0], None, (255, 0, 0)),
]


@pytest.mark.parametrize(("base", "image", "factor", "light", "expected"), EMISSION)
def test_emission_is_the_colour_of_a_black_material(tmp_path, base, image, factor, light, expected):
    gltf = Gltf()
    entry = {"pbrMetallicRoughness": dict(base), "emissiveFactor": factor}
    if factor[0] == 0.2:
        entry["extensions"] = {"KHR_materials_emissive_strength": {"emissiveStrength": 5}}
    if image is not None:
        entry["pbrMetallicRoughness"]["baseColorTexture"] = {"index": gltf.image(image)}
    if light is not None:
        entry["emissiveTexture"] = {"index": gltf.image(light)}
    gltf.mesh(POINTS, FACES, entry, TEXCOORD_0=POINTS[:, :2])
    scene = scene_of(tmp_path, gltf)
    assert np.abs(np.median(scene.colours, axis=0) - expected).max() < 3
    is_noted = any("emissive" in note for note in scene.notes)
    assert is_noted == (expected in ((0, 200, 0), (0, 0, 0)))


@pytest.mark.parametrize("is_spz", [False, True])
def test_splats_are_read_with_their_node(tmp_path, is_spz):
    splat = random_splat(degree=2)
    turn = Rotation.from_euler("xyz", [20, 50, -70], degrees=True)
    node = {"mesh": 0, "rotation": turn.as_quat().tolist(), "scale": [2, 2, 2]}
    gltf = spz_gltf(spz(splat), 300, node) if is_spz else splat_gltf(splat, node)
    gltf.tree["extensionsRequired"] = gltf.tree["extensionsUsed"]
    scan = read_scan(write(tmp_path, gltf))
    upright = Rotation.from_euler("x", 90, degrees=True) * turn
    assert np.allclose(scan.points, upright.apply(splat.points) * 2, atol=0.01)
    gaussians = scan.gaussians
    read = Rotation.from_quat(gaussians.rotations[:, [1, 2, 3, 0]]).as_matrix()
    expected = upright.as_matrix() @ Rotation.from_quat(
        splat.gaussians.rotations[:, [1, 2, 3, 0]]
    ).as_matrix()  # fmt: skip
    covariances = [
        turns * scales[:, None] ** 2 @ turns.transpose(0, 2, 1)
        for turns, scales in ((read, gaussians.scales), (expected, splat.gaussians.scales * 2))
    ]
    assert np.abs(covariances[0] - covariances[1]).max() < 0.01
    assert gaussians.harmonics.shape[1] == 9
    assert np.allclose(gaussians.harmonics_axes, upright.inv().as_matrix(), atol=1e-6)
    assert np.abs(gaussians.opacities - splat.gaussians.opacities).max() < 0.01
    assert not any("ignored" in note for note in scan.notes)


def test_splats_of_several_nodes_are_joined(tmp_path):
    nodes = [{"mesh": 0}, {"mesh": 0, "translation": [10, 0, 0]}]
    gltf = splat_gltf(random_splat(), *nodes)
    gltf.tree["scenes"] = [{"nodes": [0, 1]}]
    assert read_scan(write(tmp_path, gltf)).gaussians.harmonics.shape == (600, 16, 3)
    nodes[1]["rotation"] = [0, 1, 0, 0]
    gltf.tree["nodes"] = nodes
    scan = read_scan(write(tmp_path, gltf))
    assert scan.gaussians.harmonics.shape == (600, 1, 3)
    assert any("view-dependent" in note for note in scan.notes)


def test_splats_in_linear_light_and_of_other_kernels(tmp_path):
    splat = random_splat(degree=1)
    gltf = splat_gltf(splat, colorSpace="lin_rec709_display", kernel="triangle")
    scan = read_scan(write(tmp_path, gltf))
    assert scan.colours.mean() > random_splat(degree=1).colours.mean() + 20
    assert any("kernel triangle" in note and "linear light" in note for note in scan.notes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda tree: tree["nodes"][0].update(scale=[1, 2, 1]), "unevenly"),
        (lambda tree: tree["meshes"][0]["primitives"][0]["attributes"].popitem(), "no colours"),
        (
            lambda tree: tree["meshes"][0]["primitives"][0]["attributes"].pop(
                "KHR_gaussian_splatting:SCALE"
            ),
            "released",
        ),
        (
            lambda tree: tree["meshes"][0]["primitives"][0]["extensions"][
                "KHR_gaussian_splatting"
            ].update(extensions={"KHR_other": {}}),
            "KHR_other",
        ),
    ],
)
def test_splats_that_cannot_be_read_are_refused(tmp_path, change, reason):
    gltf = splat_gltf(random_splat(degree=0))
    change(gltf.tree)
    with pytest.raises(SceneError, match=reason):
        load_scene(write(tmp_path, gltf))


def plain():
    gltf = Gltf()
    gltf.mesh(POINTS, FACES)
    return gltf


@pytest.mark.parametrize(
    "data",
    [
        plain().glb(padding=b"\0"),
        plain().glb() + b"\0" * 10,
        plain().glb() + b"\xff" * 9,
        plain().glb() + struct.pack("<I4s", 4, b"MORE") + b"more",
        b"\xef\xbb\xbf" + plain().gltf(),
        plain().gltf() + b"\0\0",
    ],
    ids=["padding", "zeros", "bytes", "chunk", "byte order mark", "padded JSON"],
)
def test_padding_and_trailing_bytes_are_accepted(tmp_path, data):
    path = tmp_path / ("scan.glb" if data.startswith(b"glTF") else "scan.gltf")
    path.write_bytes(data)
    scene = load_scene(path)
    assert np.allclose(size(scene), [4, 3, 2.6])
    assert scene.notes == (UNCOLOURED_NOTE,)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("scan.gltf", b'{"asset": {"version": "1.0"}, "meshes": {}}', r"glTF 1\.0"),
        ("scan.glb", struct.pack("<4sIIII", b"glTF", 1, 24, 4, 0) + b"{}  ", r"glTF 1,"),
        ("scan.glb", plain().glb(version=3), "glTF 3,"),
        ("scan.glb", plain().glb()[:-40], "its last 40 bytes are missing"),
    ],
)
def test_other_versions_and_incomplete_files_are_named(tmp_path, name, data, reason):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SceneError, match=reason):
        load_scene(tmp_path / name)


def test_everything_that_is_not_used_is_named(tmp_path):
    gltf = Gltf({"mesh": 0}, {"mesh": 1}, scenes=[{"nodes": [0]}, {"nodes": [1], "name": "spare"}])
    light = gltf.image((255, 255, 255))
    material = {"normalTexture": {"index": light}, "occlusionTexture": {"index": light}}
    gltf.mesh(POINTS, FACES, material, NORMAL=POINTS, TEXCOORD_1=POINTS[:, :2], _AGE=POINTS[:, 0])
    gltf.mesh(POINTS, FACES)
    gltf.tree["extensionsUsed"] = ["KHR_texture_transform", "VENDOR_odd"]
    gltf.tree["animations"] = [{}]
    notes = [note for note in scene_of(tmp_path, gltf).notes if "ignored" in note]
    assert len(notes) == 1
    assert set(notes[0].removeprefix("ignored: ").split(", ")) == {
        "VENDOR_odd", "scene spare", "mesh 1", "animations", "normalTexture", "occlusionTexture", "TEXCOORD_1", "_AGE",
    }  # fmt: skip


def test_lines_and_points_beside_a_surface_are_named(tmp_path):
    gltf = Gltf()
    gltf.mesh(POINTS, FACES)
    for mode in (0, 1):
        primitive = dict(gltf.tree["meshes"][0]["primitives"][0], mode=mode)
        gltf.tree["meshes"][0]["primitives"].append(primitive)
    notes = scene_of(tmp_path, gltf).notes
    assert set(notes[0].removeprefix("ignored: ").split(", ")) == {"points", "lines"}


@pytest.mark.parametrize("required", [False, True])
def test_meshopt_is_refused_only_without_a_fallback(tmp_path, required):
    gltf = plain()
    for view in gltf.tree["bufferViews"]:
        view["extensions"] = {"EXT_meshopt_compression": {"buffer": 1}}
    tree = json.loads(gltf.gltf())
    tree["extensionsUsed"] = ["EXT_meshopt_compression"]
    tree["buffers"][0]["extensions"] = {"EXT_meshopt_compression": {"fallback": True}}
    if required:
        del tree["buffers"][0]["uri"]
    (tmp_path / "scan.gltf").write_text(json.dumps(tree))
    if required:
        with pytest.raises(SceneError, match="meshopt"):
            load_scene(tmp_path / "scan.gltf")
    else:
        assert np.allclose(size(load_scene(tmp_path / "scan.gltf")), [4, 3, 2.6])


def test_long_chains_of_nodes_are_read(tmp_path):
    """Regression test: a chain of more than 1,000 nodes was refused as not being a tree."""
    length = 20_000
    chain = [{"children": [number + 1]} for number in range(1, length)]
    gltf = Gltf({"translation": [1, 0, 0], "children": [1]}, *chain[: length - 2], {"mesh": 0})
    gltf.tree["scenes"] = [{"nodes": [0]}]
    gltf.tree["scene"] = 0
    gltf.mesh(POINTS, FACES)
    assert scene_of(tmp_path, gltf).points.shape[1] == 3


def test_cycles_of_nodes_are_refused(tmp_path):
    gltf = Gltf({"children": [1]}, {"children": [0], "mesh": 0})
    gltf.tree["scenes"] = [{"nodes": [0]}]
    gltf.mesh(POINTS, FACES)
    with pytest.raises(SceneError, match="do not form a tree"):
        scene_of(tmp_path, gltf)


def test_node_whose_rotation_has_no_length_is_refused(tmp_path):
    gltf = Gltf({"mesh": 0, "rotation": [0, 0, 0, 0]})
    gltf.mesh(POINTS, FACES)
    with pytest.raises(SceneError, match="a rotation is invalid"):
        scene_of(tmp_path, gltf)
