"""GLB, glTF and OBJ with materials, written by trimesh and by these tests, including oversized files."""

import io
import json
import struct
import tracemalloc

import numpy as np
import pytest
import trimesh
from factories.scans import rectangle, room
from PIL import Image
from trimesh.visual.material import PBRMaterial
from trimesh.visual.texture import TextureVisuals

from render_agent.errors import SceneError
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.meshes import mesh_file
from render_agent.scans.formats.textured import image_files
from render_agent.scans.formats.textured.gltf import nodes
from render_agent.scans.srgb import to_linear, to_srgb

RED, GREEN, BLUE, YELLOW = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)
POINTS, FACES = rectangle((0, 0, 0), (4, 3, 0))
UV = np.array([[0.1, 0.9], [0.9, 0.9], [0.9, 0.1], [0.1, 0.1]])  # v points down, as in glTF


def image_bytes(kind="PNG", side=64):
    """Return an encoded image: red and green above, blue and yellow below."""
    image = Image.new("RGB", (side, side))
    half = side // 2
    for corner, colour in zip(
        [(0, 0), (half, 0), (0, half), (half, half)], (RED, GREEN, BLUE, YELLOW), strict=True
    ):
        image.paste(colour, (*corner, corner[0] + half, corner[1] + half))
    file = io.BytesIO()
    image.save(file, kind, **({"lossless": True} if kind == "WEBP" else {}))
    return file.getvalue()


def glb(
    tmp_path,
    material=None,
    image=None,
    uv=UV,
    colours=None,
    extra=None,
    nodes=None,
    name="scan.glb",
):
    """Write a GLB of one rectangle; return its path."""
    blobs = [
        POINTS[:, [0, 2, 1]].astype("<f4").tobytes(),
        FACES.astype("<u2").tobytes(),
        uv.astype("<f4").tobytes(),
    ]
    blobs += [b"" if image is None else image, b"" if colours is None else colours.tobytes()]
    views, offset = [], 0
    for blob in blobs:
        views.append({"buffer": 0, "byteOffset": offset, "byteLength": len(blob)})
        offset += len(blob) + -len(blob) % 4
    attributes = {"POSITION": 0, "TEXCOORD_0": 2, "TEXCOORD_1": 2}
    accessors = [
        {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
        {"bufferView": 1, "componentType": 5123, "count": 6, "type": "SCALAR"},
        {"bufferView": 2, "componentType": 5126, "count": 4, "type": "VEC2"},
    ]
    if colours is not None:
        attributes["COLOR_0"] = 3
        kind = {"u": 5121, "f": 5126}[colours.dtype.kind]
        accessors.append(
            {
                "bufferView": 4,
                "componentType": kind,
                "normalized": kind == 5121,
                "count": 4,
                "type": "VEC3" if colours.shape[1] == 3 else "VEC4",
            }
        )
    tree = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0] if nodes is None else list(range(len(nodes)))}],
        "nodes": nodes or [{"mesh": 0}],
        "meshes": [
            {
                "primitives": [
                    {
                        "attributes": attributes,
                        "indices": 1,
                        **({} if material is None else {"material": 0}),
                    }
                ]
            }
        ],
        "accessors": accessors,
        "bufferViews": views,
        "buffers": [{"byteLength": offset}],
        "images": [{"bufferView": 3, "mimeType": "image/png"}],
        "textures": [{"source": 0, "sampler": 0}],
        "samplers": [{"wrapS": 33071, "wrapT": 33648}],
        "materials": [material or {}],
    } | (extra or {})
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    binary = b"".join(blob + b"\0" * (-len(blob) % 4) for blob in blobs)
    data = (
        struct.pack("<II", len(text), 0x4E4F534A)
        + text
        + struct.pack("<II", len(binary), 0x004E4942)
        + binary
    )
    path = tmp_path / name
    path.write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(data)) + data)
    return path


def textured_material(**base):
    return {"pbrMetallicRoughness": {"baseColorTexture": {"index": 0, **base}}}


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_glb_base_colour_texture_is_read(tmp_path, kind):
    scene = load_scene(glb(tmp_path, textured_material(), image_bytes(kind)))
    material = scene.texture.materials[0]
    assert material.image.shape == (64, 64, 4)
    assert np.abs(material.image[8, 8, :3].astype(int) - RED).max() <= 3
    assert material.wrap == ("clamp", "mirror")
    assert np.allclose(scene.texture.uv, UV)
    expected = [BLUE, YELLOW, GREEN, RED]
    assert np.abs(scene.colours.astype(int) - expected).max() <= 3


def test_texture_transform_is_applied(tmp_path):
    change = {"offset": [0.5, 0.25], "scale": [0.5, 2], "rotation": np.pi / 2, "texCoord": 1}
    scene = load_scene(
        glb(
            tmp_path, textured_material(extensions={"KHR_texture_transform": change}), image_bytes()
        )
    )
    # With v pointing down, a quarter turn maps (u, v) to (v, -u).
    expected = np.column_stack([2 * UV[:, 1] + 0.5, -0.5 * UV[:, 0] + 0.25])
    assert np.allclose(scene.texture.uv, expected, atol=1e-6)


def test_factors_are_linear_light_and_plain_colours_are_shaded(tmp_path):
    factor = {"pbrMetallicRoughness": {"baseColorFactor": [0.5, 0.2, 1, 1]}}
    unlit = factor | {"extensions": {"KHR_materials_unlit": {}}}
    expected = to_srgb(np.array([0.5, 0.2, 1])).astype(int)
    unshaded = load_scene(glb(tmp_path, unlit))
    assert unshaded.texture is None
    assert (unshaded.colours == expected).all()
    shaded = load_scene(glb(tmp_path, factor))
    assert (shaded.colours < expected + 1).all()
    assert (shaded.colours >= 0.6 * expected - 1).all()


def white_box_on_a_floor(path, unlit=False):
    """Write a 1 m box on a 6 × 6 m floor with one white material and two triangles per side."""
    floor = trimesh.Trimesh(
        [(-3, 0, -3), (3, 0, -3), (3, 0, 3), (-3, 0, 3)], [(0, 2, 1), (0, 3, 2)], process=False
    )
    sides = trimesh.creation.box((1, 1, 1)).triangles + np.array([0, 0.5, 0])
    box = trimesh.Trimesh(sides.reshape(-1, 3), np.arange(36).reshape(-1, 3), process=False)
    for part in (floor, box):
        part.visual = TextureVisuals(
            uv=np.zeros((len(part.vertices), 2)), material=PBRMaterial(baseColorFactor=[255] * 4)
        )
    content = trimesh.Scene([floor, box]).export(file_type="glb")
    if unlit:
        size = struct.unpack_from("<I", content, 12)[0]
        tree = json.loads(content[20 : 20 + size])
        for material in tree["materials"]:
            material["extensions"] = {"KHR_materials_unlit": {}}
        json_chunk = json.dumps(tree).encode()
        json_chunk += b" " * (-len(json_chunk) % 4)
        body = content[20 + size :]
        header = struct.pack("<4sII", b"glTF", 2, 20 + len(json_chunk) + len(body))
        content = header + struct.pack("<I4s", len(json_chunk), b"JSON") + json_chunk + body
    path.write_bytes(content)
    return load_scene(path)


def test_plain_colours_are_darker_in_corners_and_captured_ones_unchanged(tmp_path):
    scene = white_box_on_a_floor(tmp_path / "plain.glb")
    levels = scene.colours[:, 0].astype(int)
    assert (scene.colours == levels[:, None]).all()
    ground = scene.points[:, 2] < 1e-6
    uncovered = ground & (np.abs(scene.points[:, :2]).max(axis=1) > 0.5)
    distance = np.abs(scene.points[:, :2]).max(axis=1) - 0.5
    open_floor = np.unique(levels[uncovered & (distance > 0.8)])
    assert np.ptp(open_floor) <= 1
    assert levels[uncovered & (distance < 0.1)].max() < open_floor[0] - 5
    assert levels[uncovered & (distance < 0.1)].mean() < 0.92 * open_floor[0]
    height = scene.points[:, 2]
    side = np.isclose(scene.points[:, 0], 0.5) & (np.abs(scene.points[:, 1]) < 0.3)
    low, high = (levels[side & (height > z - 0.1) & (height < z + 0.1)] for z in (0.11, 0.7))
    assert low.max() < high.min()
    areas = trimesh.triangles.area(scene.points[scene.faces])
    assert areas.sum() == pytest.approx(36 + 6, rel=1e-5)
    assert "14 faces" in scene.notes[-1]
    assert "mesh, 14 faces (" in scene.description[0]
    assert len(scene.faces) > 14
    captured = white_box_on_a_floor(tmp_path / "unlit.glb", unlit=True)
    assert len(captured.faces) == 14
    assert (captured.colours == 255).all()


def test_vertex_colours_factor_and_texture_are_multiplied_in_linear_light(tmp_path):
    tints = np.tile(np.float32([0.5, 1, 1]), (4, 1))
    material = textured_material()
    material["pbrMetallicRoughness"]["baseColorFactor"] = [1, 0.5, 1, 1]
    scene = load_scene(glb(tmp_path, material, image_bytes(), colours=tints))
    half = int(to_srgb(np.array([0.5]))[0])
    assert (
        np.abs(
            scene.colours.astype(int) - [(0, 0, 255), (half, half, 0), (0, half, 0), (half, 0, 0)]
        ).max()
        <= 1
    )
    assert scene.texture.materials[0].tint == (1, 0.5, 1, 1)
    assert (scene.texture.vertex_tints == [half, 255, 255]).all()


def test_alpha_modes_give_cutoffs(tmp_path):
    for mode, cutoff in (("MASK", 0.3), ("BLEND", 0.5), ("OPAQUE", None)):
        scene = load_scene(
            glb(
                tmp_path,
                textured_material() | {"alphaMode": mode, "alphaCutoff": 0.3},
                image_bytes(),
            )
        )
        assert scene.texture.materials[0].alpha_cutoff == cutoff


@pytest.mark.parametrize("suffix", ["glb", "obj"])
def test_texture_coordinates_without_an_image_are_ignored(tmp_path, suffix):
    """Many Blender models have texture coordinates and a material with a plain colour."""
    points, faces = room()
    visual = TextureVisuals(
        uv=np.zeros((len(points), 2)), material=PBRMaterial(baseColorFactor=[200, 40, 40, 255])
    )
    path = tmp_path / f"scan.{suffix}"
    trimesh.Trimesh(points[:, [0, 2, 1]], faces, process=False, visual=visual).export(path)
    scene = load_scene(path)
    assert (scene.colours[:, 0] > 2 * scene.colours[:, 1].astype(int)).all()


def test_glb_cloud_without_colours(tmp_path):
    points = np.random.default_rng(0).uniform(0, 3, (500, 3))
    path = tmp_path / "cloud.glb"
    trimesh.Scene(trimesh.PointCloud(points)).export(path)
    scene = load_scene(path)
    assert scene.is_cloud
    assert len(scene.points) == 500


def test_invalid_texture_coordinates_are_noted(tmp_path):
    uv = UV.copy()
    uv[0] = np.nan
    scene = load_scene(glb(tmp_path, textured_material(), image_bytes(), uv))
    assert any("texture coordinates" in note for note in scene.notes)
    is_plain = [
        scene.texture.materials[number].image is None for number in scene.texture.face_materials
    ]
    assert is_plain == [True, True]  # both faces use the corner
    assert np.isfinite(scene.texture.uv).all()


def test_corrupt_texture_is_skipped_with_a_note(tmp_path):
    scene = load_scene(glb(tmp_path, textured_material(), image_bytes()[:60]))
    assert scene.texture is None
    assert any("skipped" in note for note in scene.notes)


def bomb(side):
    """Return a PNG whose header declares `side` × `side` pixels."""
    data = bytearray(image_bytes())
    data[16:24] = struct.pack(">II", side, side)
    import zlib

    data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
    return bytes(data)


def load_error(path):
    tracemalloc.start()
    with pytest.raises(SceneError) as error:
        load_scene(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 << 20
    assert str(path) in str(error.value)
    return str(error.value)


def test_oversized_textures_are_rejected_before_decoding(tmp_path):
    assert "100,000 x 100,000" in load_error(glb(tmp_path, textured_material(), bomb(100_000)))
    files = {
        "images": [{"bufferView": 3}] * 16,
        "textures": [{"source": number} for number in range(16)],
        "materials": [
            {"pbrMetallicRoughness": {"baseColorTexture": {"index": number}}}
            for number in range(16)
        ],
        "meshes": [
            {
                "primitives": [
                    {
                        "attributes": {"POSITION": 0, "TEXCOORD_0": 2},
                        "indices": 1,
                        "material": number,
                    }
                    for number in range(16)
                ]
            }
        ],
    }
    assert "16 textures" in load_error(
        glb(tmp_path, textured_material(), bomb(13_000), extra=files)
    )


def test_too_many_mesh_instances_are_rejected(tmp_path):
    accessors = [
        {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
        {"bufferView": 1, "componentType": 5123, "count": 6, "type": "SCALAR"},
        {"bufferView": 2, "componentType": 5126, "count": 4, "type": "VEC2"},
    ]
    accessors[0]["count"] = 200_000
    text = load_error(glb(tmp_path, extra={"accessors": accessors}, nodes=[{"mesh": 0}] * 300))
    assert "instances" in text


@pytest.mark.parametrize("kind", ["vertices", "pixels", "bytes"])
def test_large_files_are_read_in_a_child_process(tmp_path, monkeypatch, kind):
    path = glb(tmp_path, textured_material(), image_bytes(), nodes=[{"mesh": 0}] * 8)
    expected, calls = load_scene(path), []
    if kind == "vertices":
        monkeypatch.setattr(nodes, "MAX_VERTICES", 16 * 31)
    elif kind == "pixels":
        monkeypatch.setattr(image_files, "MAX_PIXELS_HERE", 64)
    else:
        monkeypatch.setattr(mesh_file, "MAX_BYTES_HERE", 64)
    read = mesh_file.read_in_child
    monkeypatch.setattr(mesh_file, "read_in_child", lambda *args: calls.append(1) or read(*args))
    scene = load_scene(path)
    assert calls
    assert (scene.points == expected.points).all()
    assert (scene.texture.uv == expected.texture.uv).all()


def test_unsupported_formats_error_names_a_converter_or_extension(tmp_path):
    ktx = b"\xabKTX 20\xbb\r\n\x1a\n" + b"\0" * 60
    assert "ktxdecompress" in load_error(glb(tmp_path, textured_material(), ktx))
    required = {"extensionsRequired": ["EXT_unknown"]}
    assert "EXT_unknown" in load_error(glb(tmp_path, extra=required))


def test_files_outside_the_folder_are_not_opened(tmp_path):
    (tmp_path / "secret.png").write_bytes(image_bytes())
    inside = tmp_path / "scan"
    inside.mkdir()
    (inside / "link.png").symlink_to(tmp_path / "secret.png")
    (inside / "beside.png").write_bytes(image_bytes())
    for uri, is_allowed in (
        ("../secret.png", False),
        (str(tmp_path / "secret.png"), False),
        ("link.png", False),
        ("beside.png", True),
        ("file:///etc/passwd", False),
    ):
        scene = load_scene(glb(inside, textured_material(), extra={"images": [{"uri": uri}]}))
        assert (scene.texture is not None) == is_allowed


def test_draco_meshes_are_decompressed(tmp_path):
    pytest.importorskip("DracoPy")
    points, faces = room()
    path = tmp_path / "draco.glb"
    colours = np.tile(np.array([10, 200, 30, 255], np.uint8), (len(points), 1))
    mesh = trimesh.Trimesh(
        points[:, [0, 2, 1]] * [1, 1, -1], faces, process=False, vertex_colors=colours
    )
    path.write_bytes(trimesh.exchange.gltf.export_glb(trimesh.Scene(mesh), extension_draco=True))
    if b"KHR_draco" not in path.read_bytes():
        pytest.skip("this version of trimesh cannot write Draco")
    scene = load_scene(path)
    assert np.abs(scene.points[scene.faces].min(axis=(0, 1)) - points.min(axis=0)).max() < 2e-3
    assert len(scene.faces) == len(faces)


OBJ = """mtllib room.mtl
v 0 0 0
v 4 0 0
v 4 3 0
v 0 3 0
v 0 0 1
v 4 0 1
v 4 3 1
v 0 3 1
vt 0.1 0.1
vt 0.9 0.1
vt 0.9 0.9
vt 0.1 -0.1
usemtl wall paper
f 1/1 2/2 3/3
f 1/1 3/3 4/4
usemtl red
f 5 6 7 8
"""


def test_obj_with_several_materials(tmp_path):
    (tmp_path / "a picture.png").write_bytes(image_bytes())
    (tmp_path / "room.mtl").write_text(
        "newmtl wall paper\nKd 0.8 0.8 0.8\nmap_Kd -clamp on -s 1 1 1 a picture.png\nnewmtl red\nKd 1 0 0\n"
    )
    path = tmp_path / "room.obj"
    path.write_text(OBJ)
    scene = load_scene(path)
    with_image = [part for part in scene.texture.materials if part.image is not None]
    assert len(with_image) == 1
    assert with_image[0].wrap == ("clamp", "clamp")
    at = {tuple(np.round(point, 3)): number for number, point in enumerate(scene.points)}
    blue = at[0, 0, 0]
    assert tuple(scene.colours[blue]) == BLUE  # v points up
    assert np.allclose(scene.texture.uv[blue], (0.1, 0.9))
    assert np.allclose(scene.texture.uv[at[0, 0, 3]], (0.1, 1.1))
    red = scene.colours[at[4, -1, 0]]
    assert red[0] > 120
    assert not red[1:].any()
    (tmp_path / "room.mtl").unlink()
    bare = load_scene(path)
    assert any("room.mtl" in note for note in bare.notes)


def test_obj_with_a_very_long_line_is_rejected(tmp_path):
    path = tmp_path / "a.obj"
    path.write_bytes(b"v 0 0 0\nv 4 0 0\nv 0 3 0\nf" + b" 1 2 3" * 20_000)
    assert "120,002 bytes" in load_error(path)  # includes the newline


def test_srgb_conversions_are_inverse():
    levels = np.arange(256, dtype=np.uint8)
    assert (to_srgb(to_linear(levels)) == levels).all()
    assert to_linear(np.uint8([188]))[0] == pytest.approx(0.5, abs=0.005)
