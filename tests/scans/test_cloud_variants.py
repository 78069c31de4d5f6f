"""PCD, LAS and E57 clouds as programs write them: colour ranges, flags, units per axis, and unknown fields."""

import laspy
import numpy as np
import pytest
from factories.clouds import e57_fields, geo_keys, write_e57, write_las
from factories.scans import block, room, sample_points

from render_agent.errors import SceneError
from render_agent.scans.formats.clouds.cloud_builder import CloudBuilder
from render_agent.scans.formats.clouds.e57 import read_directly
from render_agent.scans.formats.load import load_scene

MESH = room(block((1, 1, 0), (2, 2, 0.75)))
POINTS = np.round(sample_points(*MESH, 3000), 3)
RANDOM = np.random.default_rng(4)
COLOURS = RANDOM.integers(0, 256, POINTS.shape)
PACKED = COLOURS @ (1 << 16, 1 << 8, 1)


def write_fields(path, *fields, kind="binary"):
    """Write a PCD file of x, y and z and the fields (name, PCD type, numpy type, values)."""
    all_fields = [*(("xyz"[at], "F", "f4", POINTS[:, at]) for at in range(3)), *fields]
    header = {
        "VERSION": [".7"],
        "FIELDS": [name for name, *_ in all_fields],
        "SIZE": [np.dtype(numpy).itemsize for _, _, numpy, _ in all_fields],
        "TYPE": [letter for _, letter, *_ in all_fields],
        "COUNT": [1] * len(all_fields),
        "WIDTH": [len(POINTS)],
        "HEIGHT": [1],
        "POINTS": [len(POINTS)],
        "DATA": [kind],
    }
    text = "".join(
        f"{key} {' '.join(map(str, header_values))}\n" for key, header_values in header.items()
    )
    if kind == "ascii":
        rows = zip(*(values for *_, values in all_fields), strict=True)
        body = "".join(" ".join(f"{value:.9g}" for value in row) + "\n" for row in rows).encode()
    else:
        table = np.empty(len(POINTS), [(name, numpy) for name, _, numpy, _ in all_fields])
        for name, _, _, values in all_fields:
            table[name] = values
        body = table.tobytes()
    path.write_bytes(text.encode() + body)
    return path


@pytest.mark.parametrize("kind", ["binary", "ascii"])
@pytest.mark.parametrize(
    "names", [("red", "green", "blue"), ("Red", "Green", "Blue"), ("r", "g", "b")]
)
@pytest.mark.parametrize(
    ("letter", "numpy", "scale"),
    [("F", "f8", 1), ("F", "f4", 1 / 255), ("U", "u1", 1), ("U", "u2", 257), ("I", "i4", 1)],
)
def test_pcd_separate_colour_fields(tmp_path, kind, names, letter, numpy, scale):
    fields = [(name, letter, numpy, COLOURS[:, at] * scale) for at, name in enumerate(names)]
    scene = load_scene(write_fields(tmp_path / "a.pcd", *fields, kind=kind))
    assert np.array_equal(scene.colours, COLOURS)
    assert not any("ignored" in note for note in scene.notes)


@pytest.mark.parametrize("kind", ["binary", "ascii"])
@pytest.mark.parametrize(
    ("letter", "numpy", "values"),
    [
        ("U", "u4", PACKED),
        ("I", "i4", PACKED),
        ("U", "u8", PACKED),
        ("F", "f4", PACKED.astype(np.uint32).view(np.float32)),
        ("F", "f4", PACKED.astype(np.float32)),
        ("F", "f8", PACKED.astype(np.float64)),
    ],
)
def test_pcd_packed_colours_of_any_type(tmp_path, kind, letter, numpy, values):
    path = write_fields(tmp_path / "a.pcd", ("rgb", letter, numpy, values), kind=kind)
    assert np.array_equal(load_scene(path).colours, COLOURS)


def test_pcd_unknown_fields_are_noted(tmp_path):
    extra = [("label", "U", "u4", PACKED), ("normal_x", "F", "f4", POINTS[:, 0])]
    path = write_fields(tmp_path / "a.pcd", ("rgb", "U", "u4", PACKED), *extra)
    assert "ignored: label" in load_scene(path).notes


@pytest.mark.parametrize(("name", "form"), [("a.las", 7), ("a.las", 2), ("a.laz", 7)])
def test_las_withheld_points_are_dropped_and_extra_fields_noted(tmp_path, name, form):
    path = tmp_path / name
    write_las(path, POINTS, COLOURS, form=form)
    las = laspy.read(path)
    withheld = np.arange(len(POINTS)) % 5 == 0
    las.withheld = withheld.astype(np.uint8)
    las.x = np.where(withheld, 900.0, las.x)
    las.add_extra_dim(laspy.ExtraBytesParams("tree id", np.uint16))
    las.write(path)
    scene = load_scene(path)
    assert np.abs(scene.points - POINTS[~withheld]).max() < 1e-4
    assert np.array_equal(scene.colours, COLOURS[~withheld])
    assert any(note.startswith("600 withheld") for note in scene.notes)
    assert "ignored: tree id" in scene.notes


FOOT = 0.3048
GEOGRAPHIC = (
    'GEOGCS["g",DATUM["d",SPHEROID["s",6378137,298.257]],UNIT["degree",0.0174532925199433]]'
)
PROJECTED = f'PROJCS["p",{GEOGRAPHIC},PROJECTION["Lambert"],UNIT["%s",%s]]'
HEIGHT = 'VERT_CS["v",VERT_DATUM["n",2005],UNIT["%s",%s]]'
WKT2 = (
    'COMPOUNDCRS["c",PROJCRS["p",BASEGEOGCRS["g",DATUM["d",ELLIPSOID["e",6378137,298,LENGTHUNIT["metre",1]]]],'
    'CONVERSION["u",METHOD["m"]],CS[Cartesian,2],AXIS["e",east],LENGTHUNIT["foot",0.3048]],'
    'VERTCRS["v",VDATUM["n"],CS[vertical,1],AXIS["up",up],LENGTHUNIT["metre",1]]]'
)


def wkt(horizontal, vertical):
    return f'COMPD_CS["c",{horizontal},{vertical}]'


@pytest.mark.parametrize(
    ("crs", "horizontal", "vertical"),
    [
        (wkt(PROJECTED % ("foot", FOOT), HEIGHT % ("metre", 1)), FOOT, 1),
        (wkt(PROJECTED % ("metre", 1), HEIGHT % ("foot", FOOT)), 1, FOOT),
        (wkt(PROJECTED % ("foot", FOOT), HEIGHT % ("foot", FOOT)), FOOT, FOOT),
        (WKT2, FOOT, 1),
        (geo_keys(k1024=1, k3076=9002, k4099=9001), FOOT, 1),
        (geo_keys(k1024=1, k3076=9001, k4099=9002), 1, FOOT),
    ],
)
def test_las_units_per_axis(tmp_path, crs, horizontal, vertical):
    path = tmp_path / "a.las"
    vlr = laspy.vlrs.known.WktCoordinateSystemVlr(crs) if isinstance(crs, str) else crs
    points = POINTS / (horizontal, horizontal, vertical)
    write_las(path, points, COLOURS, scale=1e-4, vlrs=[vlr])
    scene = load_scene(path)
    assert np.abs(scene.points - POINTS).max() < 1e-3
    assert any("heights" in note for note in scene.notes) == (horizontal != vertical)


def test_las_compound_system_in_degrees_is_rejected(tmp_path):
    path = tmp_path / "a.las"
    vlr = laspy.vlrs.known.WktCoordinateSystemVlr(wkt(GEOGRAPHIC, HEIGHT % ("metre", 1)))
    write_las(path, POINTS, COLOURS, vlrs=[vlr])
    with pytest.raises(SceneError, match="degrees"):
        load_scene(path)


@pytest.mark.parametrize(("kind", "scale"), [(np.uint16, 257), (np.uint8, 1), (np.uint16, 1)])
def test_e57_colours_without_limits(tmp_path, monkeypatch, kind, scale):
    path = tmp_path / "a.e57"
    fields = e57_fields(POINTS)
    for at, name in enumerate(("colorRed", "colorGreen", "colorBlue")):
        fields[name] = (COLOURS[:, at] * scale).astype(kind)
    write_e57(path, [(fields, np.eye(3), (0, 0, 0))])
    monkeypatch.setattr("render_agent.scans.formats.clouds.e57._red_limits", lambda scan: None)
    scan = read_directly(path, path.stat().st_size)
    assert np.array_equal(scan.colours, COLOURS)
    assert scan.notes == ()


@pytest.mark.parametrize("scale", [1 / 255, 1, 257])
def test_range_is_judged_by_the_maximum_of_all_chunks(scale):
    # pye57 cannot write fractional colours, so the builder is tested instead.
    cloud = CloudBuilder(bits=None)
    cloud.add(POINTS, np.zeros(POINTS.shape))
    cloud.add(POINTS, COLOURS * scale)
    assert np.array_equal(cloud.scan().colours[len(POINTS) :], COLOURS)
