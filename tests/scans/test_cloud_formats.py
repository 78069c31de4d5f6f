"""LAS, LAZ, E57, PCD, text columns and USD: files written by other libraries are read back unchanged."""

import os
import re
import struct
import sys
from pathlib import Path

import laspy
import numpy as np
import psutil
import pytest
import trimesh
from conftest import mostly_slow
from factories.clouds import e57_fields, geo_keys, write_e57, write_las, write_pcd, write_usd
from factories.scans import RGB, XYZ, block, ply, room, sample_points
from factories.splats import random_splat, spz

from render_agent.errors import SceneError
from render_agent.scans.formats import readers, reading_process
from render_agent.scans.formats.clouds import e57
from render_agent.scans.formats.clouds.cloud_builder import CloudBuilder
from render_agent.scans.formats.clouds.pcd import decompress_lzf
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.reading_process import read_in_child

MESH = room(block((1, 1, 0), (2, 2, 0.75)))
POINTS = np.round(sample_points(*MESH, 4000), 3)
RANDOM = np.random.default_rng(11)
COLOURS = RANDOM.integers(0, 256, POINTS.shape).astype(np.uint8)
INTENSITY = RANDOM.integers(0, 4000, len(POINTS))
UTM = np.array([512345.0, 5412345.0, 431.0])


def file_points(scene):
    """Return the points with the coordinates in the file."""
    return scene.points.astype(np.float64) + scene.origin


def is_grey_by(intensity, colours):
    """Return True if the colours are greys that increase with intensity, from dark to bright."""
    assert (colours == colours[:, :1]).all()
    grey = colours[np.argsort(intensity, kind="stable"), 0].astype(int)
    return (np.diff(grey) >= 0).all() and grey[0] < 40 and grey[-1] > 220


@pytest.mark.parametrize(
    ("name", "form", "times"),
    [
        ("a.las", 7, 256),
        ("a.laz", 7, 257),
        ("a.las", 2, 1),
        pytest.param("a.laz", 3, 256, marks=pytest.mark.slow),
    ],
)
def test_las_is_precise_at_utm_offsets(tmp_path, name, form, times):
    path = tmp_path / name
    write_las(path, POINTS + UTM, COLOURS, INTENSITY, form=form, times=times)
    scene = load_scene(path)
    assert np.abs(file_points(scene) - (POINTS + UTM)).max() < 1e-6
    assert np.array_equal(scene.colours, COLOURS)
    assert scene.is_cloud
    assert scene.frame.up == "z"
    assert scene.ceiling - scene.floor == pytest.approx(2.7, abs=0.03)


WKT = (
    'PROJCS["NAD83 / State Plane",GEOGCS["NAD83",UNIT["degree",0.0174532925199433]],'
    'PROJECTION["Lambert"],UNIT["US survey foot",0.3048006096012192]]'
)


@pytest.mark.parametrize(
    ("vlr", "metres"),
    [
        (geo_keys(k1024=1, k3076=9001), 1.0),
        (geo_keys(k1024=1, k3076=9002), 0.3048),
        (laspy.vlrs.known.WktCoordinateSystemVlr(WKT), 0.3048006096012192),
    ],
)
def test_unit_of_the_coordinate_system_is_used(tmp_path, vlr, metres):
    path = tmp_path / "a.las"
    write_las(path, POINTS / metres, form=1, intensity=INTENSITY, scale=1e-4, vlrs=[vlr])
    scene = load_scene(path)
    assert scene.frame.metres == metres
    assert scene.notes == ()
    assert np.abs(scene.points - POINTS).max() < 1e-4
    assert is_grey_by(INTENSITY, scene.colours)


def test_coordinates_in_degrees_are_rejected(tmp_path):
    path = tmp_path / "a.las"
    write_las(path, POINTS, form=1, vlrs=[geo_keys(k1024=2)])
    with pytest.raises(SceneError, match="degrees"):
        load_scene(path)


def test_e57_scans_are_transformed_by_their_poses(tmp_path):
    path = tmp_path / "a.e57"
    half = len(POINTS) // 2
    scans = []
    for part, angle, shift in (
        (slice(half), 0.4, (3, 2, 1)),
        (slice(half, None), -2.0, (-1, 5, 0)),
    ):
        turn = trimesh.transformations.rotation_matrix(angle, (0.1, 0.2, 0.9))[:3, :3]
        local = (POINTS[part] - shift) @ turn
        scans.append((e57_fields(local, COLOURS[part], INTENSITY[part]), turn, shift))
    write_e57(path, scans)
    scene = load_scene(path)
    assert np.abs(file_points(scene) - POINTS).max() < 2e-6
    assert np.array_equal(scene.colours, COLOURS)
    assert (scene.frame.unit, scene.notes) == ("metres", ())


def test_e57_invalid_points_are_dropped_and_intensities_become_grey(tmp_path):
    path = tmp_path / "a.e57"
    invalid = np.arange(len(POINTS)) % 7 == 0
    fields = e57_fields(np.where(invalid[:, None], 99.0, POINTS), intensity=INTENSITY)
    fields["cartesianInvalidState"] = invalid.astype(np.int8)
    write_e57(path, [(fields, np.eye(3), (0, 0, 0))])
    scene = load_scene(path)
    assert np.abs(scene.points - POINTS[~invalid]).max() < 1e-6
    assert is_grey_by(INTENSITY[~invalid], scene.colours)


def test_e57_spherical_coordinates_are_converted(tmp_path, monkeypatch):
    path = tmp_path / "a.e57"
    position = np.array([1.5, 1.5, 1.2])
    x, y, z = (POINTS - position).T
    distance = np.linalg.norm(POINTS - position, axis=1)
    polar = np.column_stack([distance, np.arctan2(y, x), np.arcsin(z / distance)])
    write_e57(path, [(e57_fields(polar), np.eye(3), position)])
    # pye57 cannot write spherical coordinates, so the field names are swapped instead.
    monkeypatch.setattr(e57, "SPHERICAL", e57.CARTESIAN)
    monkeypatch.setattr(e57, "CARTESIAN", ("no", "such", "fields"))
    assert np.abs(e57.read_directly(path, path.stat().st_size).points - POINTS).max() < 2e-6


@pytest.mark.parametrize("kind", ["ascii", "binary", "compressed"])
def test_pcd_points_colours_and_intensities_are_read(tmp_path, kind):
    path = tmp_path / "a.pcd"
    write_pcd(path, POINTS, COLOURS, kind=kind)
    scene = load_scene(path)
    assert np.abs(scene.points - POINTS).max() < 1e-6
    assert np.array_equal(scene.colours, COLOURS)
    write_pcd(path, POINTS, intensity=INTENSITY, kind=kind)
    scene = load_scene(path)
    assert np.abs(scene.points - POINTS).max() < 1e-6
    assert is_grey_by(INTENSITY, scene.colours)


def test_lzf_is_decompressed_or_rejected():
    data = b"\x02abc\xe0\x64\x02\x00z"  # abc, 109 bytes copied from 3 bytes back, z
    content = (b"abc" * 40)[:112] + b"z"
    assert decompress_lzf(data, len(content)) == content
    for corrupt in (data[:-1], data + b"\x05", data.replace(b"\x02\x00", b"\x09\x00")):
        assert decompress_lzf(corrupt, len(content)) is None
    assert decompress_lzf(data, len(content) - 1) is None


def rows(*columns):
    return np.column_stack([POINTS, *columns])


@pytest.mark.parametrize(
    ("name", "table", "header", "delimiter", "number_format"),
    [
        ("a.xyz", rows(COLOURS), "", " ", "%.3f"),
        ("a.txt", rows(COLOURS / 255), "", "\t", "%.6f"),
        ("a.csv", rows(COLOURS, INTENSITY), '"X","Y","Z","R","G","B","Intensity"', ",", "%.3f"),
        ("a.csv", rows(INTENSITY, COLOURS)[:, [0, 2, 1, 3, 4, 5, 6]], "x;z;y;i;r;g;b", ";", "%.3f"),
        ("a.pts", rows(INTENSITY - 2048, COLOURS), str(len(POINTS)), " ", "%.3f"),
        ("a.asc", rows(COLOURS, POINTS - 3), "# made by hand", " ", "%.3f"),
        ("a.txt", rows(POINTS / 9 - 1, COLOURS), "//X Y Z Nx Ny Nz R G B", " ", "%.3f"),
        ("a.txt", rows(np.tile([0.0, -0.6, 0.8], (len(POINTS), 1)), COLOURS), "", " ", "%.3f"),
    ],
)
def test_text_columns_are_identified_by_name_or_content(
    tmp_path, name, table, header, delimiter, number_format
):
    path = tmp_path / name
    np.savetxt(path, table, number_format, delimiter, header=header, comments="")
    scene = load_scene(path)
    assert np.abs(scene.points - POINTS).max() < 1e-6
    assert np.array_equal(scene.colours, COLOURS)


def test_text_columns_without_colours(tmp_path):
    path = tmp_path / "a.xyz"
    np.savetxt(path, rows(INTENSITY), "%.3f")
    assert is_grey_by(INTENSITY, load_scene(path).colours)
    path.write_bytes(path.read_bytes().replace(b".", b",").replace(b" ", b";"))  # decimal commas
    assert np.abs(load_scene(path).points - POINTS).max() < 1e-6
    np.savetxt(path, rows(np.tile([0.6, 0.0, -0.8], (len(POINTS), 1))), "%.3f")  # normals
    assert len(np.unique(load_scene(path).colours)) > 20


def test_pts_file_with_several_counted_scans(tmp_path):
    path = tmp_path / "a.pts"
    lines = [" ".join(f"{value:.3f}" for value in row) for row in rows(INTENSITY, COLOURS)]
    parts = [[str(len(part)), *part] for part in (lines[:1500], lines[1500:])]
    path.write_text("\r\n".join(line for part in parts for line in part))
    assert np.array_equal(load_scene(path).colours, COLOURS)


def test_ply_intensities_become_grey(tmp_path):
    path = tmp_path / "a.ply"
    kinds = (*XYZ, ("float", "scalar_Intensity"))
    path.write_bytes(ply([("vertex", kinds, rows(INTENSITY))]))
    assert is_grey_by(INTENSITY, load_scene(path).colours)
    kinds = (*XYZ, *RGB, ("float", "scalar_Intensity"))
    path.write_bytes(ply([("vertex", kinds, rows(COLOURS, INTENSITY))]))
    assert np.array_equal(load_scene(path).colours, COLOURS)


def test_glb_cloud_keeps_its_colours(tmp_path):
    path = tmp_path / "a.glb"
    opaque = np.column_stack([COLOURS, np.full(len(COLOURS), 255)]).astype(np.uint8)
    trimesh.PointCloud(POINTS[:, [0, 2, 1]] * [1, 1, -1], opaque).export(path)
    scene = load_scene(path)
    assert scene.is_cloud
    assert np.abs(scene.points - POINTS).max() < 1e-6
    assert np.array_equal(scene.colours, COLOURS)


@pytest.mark.parametrize(
    ("name", "up", "metres"),
    [("a.usda", "Y", 0.01), pytest.param("a.usdc", "Z", 1.0, marks=pytest.mark.slow)],
)
def test_usd_meshes_are_converted_to_metres(tmp_path, name, up, metres):
    path = tmp_path / name
    points, faces = MESH
    light = RANDOM.random(points.shape)
    write_usd(path, points, faces, up=up, metres=metres, colours=light)
    scene = load_scene(path)
    assert np.abs(scene.points[scene.faces] - points[faces] - [1, 2, 3]).max() < 1e-5
    expected = 255 * np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    assert np.abs(scene.colours - expected).max() < 0.51
    assert (scene.frame.up, scene.frame.metres, scene.notes) == (up.lower(), metres, ())


def test_usdz_polygons_with_a_colour_per_face(tmp_path):
    from pxr import Sdf, UsdUtils

    points = np.array([[0, 0, 0], [3, 0, 0], [4, 2, 0], [2, 3, 0], [0, 3, 0], [0, 0, 2.5]], float)
    faces = [(0, 1, 2, 3, 4), (0, 4, 5)]
    write_usd(tmp_path / "a.usdc", points, faces, colours=np.eye(3)[:2], kind="uniform")
    UsdUtils.CreateNewUsdzPackage(Sdf.AssetPath(str(tmp_path / "a.usdc")), str(tmp_path / "a.usdz"))
    scene = load_scene(tmp_path / "a.usdz")
    corners = scene.points[scene.faces].astype(float)
    areas = (
        np.linalg.norm(
            np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
        )
        / 2
    )
    red = (scene.colours[scene.faces] == (255, 0, 0)).all(axis=(1, 2))
    assert (red.sum(), areas[red].sum()) == (3, pytest.approx(10))
    assert (scene.colours[scene.faces][~red] == (0, 255, 0)).all()


def test_usd_texture_is_read(tmp_path):
    from PIL import Image
    from pxr import Sdf, UsdGeom, UsdShade

    quarters = np.array([[(255, 0, 0), (0, 255, 0)], [(0, 0, 255), (255, 255, 0)]], np.uint8)
    Image.fromarray(quarters.repeat(16, 0).repeat(16, 1)).save(tmp_path / "picture.png")
    points = np.array([[0, 0, 0], [4, 0, 0], [4, 3, 0], [0, 3, 0]], float)
    stage = write_usd(tmp_path / "a.usda", points, [(0, 1, 2, 3)])
    mesh = stage.GetPrimAtPath("/room/mesh")
    corners = [(0.1, 0.1), (0.9, 0.1), (0.9, 0.9), (0.1, 0.9)]  # v points up
    kind = Sdf.ValueTypeNames.TexCoord2fArray
    UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", kind, "faceVarying").Set(corners)
    material = UsdShade.Material.Define(stage, "/look")
    surface, image = (UsdShade.Shader.Define(stage, f"/look/{name}") for name in "sp")
    surface.CreateIdAttr("UsdPreviewSurface")
    image.CreateIdAttr("UsdUVTexture")
    image.CreateInput("file", Sdf.ValueTypeNames.Asset).Set("./picture.png")
    colour = image.CreateOutput("rgb", Sdf.ValueTypeNames.Float3)
    surface.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f).ConnectToSource(colour)
    material.CreateSurfaceOutput().ConnectToSource(surface.ConnectableAPI(), "surface")
    UsdShade.MaterialBindingAPI.Apply(mesh).Bind(material)
    stage.Save()
    scene = load_scene(tmp_path / "a.usda")
    assert scene.colours.tolist() == [[0, 0, 255], [255, 255, 0], [0, 255, 0], [255, 0, 0]]
    assert np.allclose(scene.texture.uv, np.array(corners) * [1, -1] + [0, 1])
    assert np.array_equal(scene.texture.materials[0].image[::16, ::16, :3], quarters)


def test_cloud_builder_limits_memory():
    cloud = CloudBuilder(max_points=6000)
    for part in np.array_split(np.arange(40_000), 20):
        points = sample_points(*room(), len(part), seed=int(part[0]))
        colours = np.where(points[:, :1] < 3, (200, 0, 0), (0, 0, 200))
        cloud.add(points, colours)
        assert sum(len(points) for points, _ in cloud._parts) <= 6000
    scan = cloud.scan()
    assert 2000 < len(scan.points) <= 6000
    off_wall = np.minimum(np.abs(scan.points), np.abs(scan.points - [6, 4, 2.7])).min(axis=1)
    assert np.quantile(off_wall, 0.9) < 0.1
    clear = np.abs(scan.points[:, 0] - 3) > 0.5
    expected = np.where(scan.points[clear, :1] < 3, (200, 0, 0), (0, 0, 200))
    assert np.array_equal(scan.colours[clear], expected)


def load_error(path):
    with pytest.raises(SceneError) as error:
        load_scene(path)
    text = str(error.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def test_las_with_wrong_counts_is_rejected(tmp_path):
    path = tmp_path / "a.las"
    write_las(path, POINTS, COLOURS, form=2)
    content = path.read_bytes()
    path.write_bytes(content[:107] + struct.pack("<I", 2**31) + content[111:])
    assert "2,147,483,648 points" in load_error(path)
    path.write_bytes(content[:-500])
    assert "too many" in load_error(path)
    path.write_bytes(content[:100] + struct.pack("<I", 2**30) + content[104:])
    assert "too many records" in load_error(path)
    path = tmp_path / "a.laz"
    write_las(path, POINTS, COLOURS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    load_error(path)
    path.write_bytes(content[:200])
    assert "header" in load_error(path)


@pytest.mark.parametrize(("name", "kind"), [("a.pcd", "ascii"), ("a.pcd", "binary"), ("a.las", "")])
def test_points_beyond_the_declared_ones_are_noted(tmp_path, name, kind):
    path = tmp_path / name
    if kind:
        write_pcd(path, POINTS, COLOURS, kind=kind)
        content = path.read_bytes()
        fewer = {f"{key} {len(POINTS)}": f"{key} {len(POINTS) - 9}" for key in ("WIDTH", "POINTS")}
        for old, new in fewer.items():
            content = content.replace(old.encode(), new.encode())
    else:
        write_las(path, POINTS, COLOURS)
        content = bytearray(path.read_bytes())
        content[247:255] = struct.pack("<Q", len(POINTS) - 9)
    path.write_bytes(content)
    scene = load_scene(path)
    assert len(scene.points) == len(POINTS) - 9
    assert any(
        re.search(r"ignored: \d+ (bytes|numbers) after the last", note) for note in scene.notes
    )


def test_laz_that_declares_far_too_many_points_is_refused_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "a.laz"
    write_las(path, POINTS, COLOURS)
    content = bytearray(path.read_bytes())
    content[247:255] = struct.pack("<Q", 200_000_000)
    path.write_bytes(content)
    monkeypatch.setattr("render_agent.scans.formats.clouds.las.read_in_child", pytest.fail)
    assert f"200,000,000 points, too many for {len(content):,} bytes" in load_error(path)


def test_pcd_with_wrong_counts_is_rejected(tmp_path):
    path = tmp_path / "a.pcd"
    write_pcd(path, POINTS, COLOURS, kind="compressed")
    content = path.read_bytes()
    count = str(len(POINTS)).encode()
    path.write_bytes(content.replace(count, b"9" * 12))
    assert "999,999,999,999 points" in load_error(path)
    start = content.index(b"binary_compressed\n") + len(b"binary_compressed\n")
    path.write_bytes(content[: start + 4] + b"\xff\xff\xff\xff" + content[start + 8 :])
    assert f"{(1 << 32) - 1:,} bytes" in load_error(path)
    path.write_bytes(content[:-50])
    assert "compressed points" in load_error(path)
    path.write_bytes(b"FIELDS x\nDATA binary\n")
    assert "header is invalid" in load_error(path)


@pytest.mark.parametrize(
    "name", mostly_slow(["a.e57", "a.usdc", "a.usdz", "a.csv"], "a.e57", "a.usdc", "a.csv")
)
def test_corrupt_and_mislabelled_files_are_rejected(tmp_path, name):
    path = tmp_path / name
    if name == "a.e57":
        write_e57(path, [(e57_fields(POINTS), np.eye(3), (0, 0, 0))])
    elif name == "a.usdc":
        write_usd(path, *MESH)
    else:
        path.write_bytes(b"PK\x03\x04" + b"1,2,3\n1,2\n" * 40)
    path.write_bytes(path.read_bytes()[:-300])
    assert "Error in" not in load_error(path)  # no position in a library's source code


def test_absurd_colours_do_not_prevent_loading(tmp_path):
    path = tmp_path / "a.xyz"
    rows = [f"{x} {y} {z} 1e300 {x} -1e300" for x, y, z in POINTS[:500].tolist()]
    path.write_text("\n".join(["//X Y Z R G B", *rows]))
    assert len(load_scene(path).points) == 500
    path.write_text("\n".join(rows))
    assert len(load_scene(path).points) == 500


def crash(path, size):
    os.abort()


def test_crashing_reader_gives_an_error(tmp_path):
    with pytest.raises(SceneError, match="SIGABRT"):
        read_in_child(crash, tmp_path / "a.e57", 1)


def endless(path, size):
    while True:
        pass


def test_endless_reader_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(reading_process, "MIN_SECONDS", 1.0)
    with pytest.raises(SceneError, match="1 s"):
        read_in_child(endless, tmp_path / "a.usd", 0)


def greedy(path, size):
    try:
        bytearray(psutil.virtual_memory().available * 6 // 10)
    except MemoryError:
        score = Path("/proc/self/oom_score_adj").read_text().strip()
        raise SceneError(f"no memory, score {score}") from None


def test_greedy_reader_is_stopped_before_the_run(tmp_path):
    with pytest.raises(SceneError, match="no memory, score 1000"):
        read_in_child(greedy, tmp_path / "a.e57", 1)


@pytest.mark.parametrize(("name", "module"), [("a.las", "laspy"), ("a.spz", "zstandard")])
def test_missing_library_error_names_the_extra(tmp_path, monkeypatch, name, module):
    path = tmp_path / name
    if name == "a.las":
        write_las(path, POINTS)
    else:
        path.write_bytes(spz(random_splat(), 4))
    monkeypatch.setitem(sys.modules, module, None)
    text = load_error(path)
    assert f"needs {module}" in text
    assert '"render_agent[scans]"' in text


def test_formats_have_distinct_magic_bytes_and_suffixes():
    magics = [magic for form in readers.FORMATS for magic in form.magic]
    assert not [a for a in magics for b in magics if a is not b and a.startswith(b)]
    suffixes = [suffix for form in readers.FORMATS for suffix in form.suffixes]
    assert len(suffixes) == len(set(suffixes))
