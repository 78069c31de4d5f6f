"""Reading splats in every format, and rejecting broken files."""

import gzip
import struct
import zlib

import numpy as np
import pytest
from conftest import test_data
from factories.scans import XYZ, ply
from factories.splats import compressed_ply, dot_splat, original_ply, random_splat, spz
from numpy.testing import assert_allclose
from scipy.spatial.transform import Rotation

from render_agent.errors import SceneError
from render_agent.scans.formats.load import load_scene, read_scan

SPZ_MODULE = "render_agent.scans.formats.splats.spz"
SIZE_MODULE = "render_agent.scans.formats.declared_size"

SPLAT, PLAIN = random_splat(), random_splat(degree=0)

# File content and degree of harmonics, for every format.
FILES = {
    **{
        f"original {order} {degree}": (original_ply(random_splat(degree=degree), order), degree)
        for order, degree in (
            ("ascii", 3), ("binary_big_endian", 2), ("binary_little_endian", 1), ("binary_little_endian", 0),
        )
    },
    "compressed": (compressed_ply(SPLAT), 3),
    "compressed plain": (compressed_ply(PLAIN), 0),
    **{f"spz {version}": (spz(SPLAT, version), 3) for version in (1, 2, 3, 4)},
    "spz plain": (spz(PLAIN, 4), 0),
    ".splat": (dot_splat(PLAIN), 0),
}  # fmt: skip


def covariances(rotations, scales):
    axes = Rotation.from_quat(rotations[:, [1, 2, 3, 0]]).as_matrix() * scales[:, None].astype(
        float
    )
    return axes @ axes.transpose(0, 2, 1)


def read(tmp_path, data, name="scan.bin"):
    path = tmp_path / name
    path.write_bytes(data)
    scan = read_scan(path, up="z")  # keeps the file's axes
    return scan, scan.up


@pytest.mark.parametrize("name", ["compressed", "spz 4", ".splat"])
def test_assumed_up_axis_of_a_splat_is_noted(tmp_path, name):
    path = tmp_path / "scan.bin"
    path.write_bytes(FILES[name][0])
    assert "--up" in read_scan(path).notes[-1]
    assert not any("--up" in note for note in read_scan(path, up="y").notes)


@pytest.mark.parametrize("name", FILES)
def test_splats_are_read_as_written(tmp_path, name):
    data, degree = FILES[name]
    scan, up = read(tmp_path, data)
    assert up == ("y" if name.startswith("spz") else "-y")
    expected, gaussians = random_splat(degree=degree), scan.gaussians
    coarse = not name.startswith("original")
    assert scan.points == pytest.approx(expected.points, abs=3e-3 if coarse else 1e-6)
    assert gaussians.opacities == pytest.approx(
        expected.gaussians.opacities, abs=3e-3 if coarse else 1e-5
    )
    assert gaussians.scales == pytest.approx(
        expected.gaussians.scales, rel=0.04 if coarse else 1e-5
    )
    before = covariances(expected.gaussians.rotations, expected.gaussians.scales)
    after = covariances(gaussians.rotations, gaussians.scales)
    assert after == pytest.approx(before, abs=2e-3 if coarse else 1e-7)
    assert gaussians.harmonics.shape == expected.gaussians.harmonics.shape
    assert gaussians.harmonics == pytest.approx(
        expected.gaussians.harmonics, abs=0.03 if coarse else 1e-5
    )
    assert np.abs(scan.colours.astype(int) - expected.colours).max() <= (3 if coarse else 0)


@pytest.mark.parametrize(("data", "up"), [(FILES["spz plain"][0], 1), (FILES[".splat"][0], -1)])
def test_splats_are_upright(tmp_path, data, up):
    path = tmp_path / "room.splat"
    path.write_bytes(data)
    scene = load_scene(path)
    assert scene.points[:, 2] == pytest.approx(up * PLAIN.points[:, 1], abs=3e-3)
    assert load_scene(path, up="z").points == pytest.approx(PLAIN.points, abs=3e-3)
    # The coefficients are unchanged; their axes are rotated with the scene.
    x, y, z = scene.gaussians.harmonics_axes @ np.array([0.0, 0.0, 1.0])
    assert (x, y * up, z) == pytest.approx((0, 1, 0))


def test_up_axis_comment_of_a_converted_splat_is_used(tmp_path):
    scan, up = read(tmp_path, original_ply(SPLAT, comment="up z"))
    assert (up, scan.notes) == ("z", ())


def test_ordinary_cloud_is_not_a_splat(tmp_path):
    colours = tuple(("float", f"f_dc_{i}") for i in range(3))
    rows = np.random.default_rng(0).random((300, 6))
    scan, _ = read(tmp_path, ply([("vertex", XYZ + colours, rows)], "ascii"))
    assert scan.gaussians is None
    for data in (rows.astype(np.float32).tobytes(), gzip.compress(b"some text")):
        with pytest.raises(SceneError, match=r"scan\.bin"):
            read(tmp_path, data)


def test_invalid_gaussians_are_dropped(tmp_path):
    splat = random_splat()
    splat.points[3] = np.nan
    splat.gaussians.scales[5] = np.inf
    splat.gaussians.rotations[7] = 0
    splat.gaussians.harmonics[9, 4] = np.nan
    scan, _ = read(tmp_path, original_ply(splat))
    valid_points = np.delete(splat.points, [3, 5, 7, 9], axis=0)
    assert scan.points == pytest.approx(valid_points)
    assert scan.notes[0].startswith("4 ")


def packed_header(count, version=3, degree=3, fraction=12):
    return struct.pack("<4sIIBBBB", b"NGSP", version, count, degree, fraction, 0, 0)


BOMB = gzip.compress(packed_header(20_000_000) + bytes(64_000))
BROKEN = {
    "truncated .splat": (dot_splat(PLAIN)[:-5], "multiple of 32"),
    "truncated original": (original_ply(SPLAT)[:-5], "more than fit"),
    "truncated compressed": (compressed_ply(SPLAT)[:-5], "more than fit"),
    "truncated gzip": (spz(SPLAT)[:-200], "ends before"),
    "truncated zstd": (spz(SPLAT, 4)[:-20], "ends before"),
    "broken gzip": (spz(SPLAT)[:200] + b"\xff" * 60 + spz(SPLAT)[260:], "corrupt"),
    "broken zstd": (spz(SPLAT, 4)[:140] + bytes(9) + spz(SPLAT, 4)[149:], "zstd"),
    "too few chunks": (compressed_ply(SPLAT).replace(b"chunk 2", b"chunk 1"), "chunks"),
    "uneven harmonics": (original_ply(SPLAT).replace(b"f_rest_44", b"no_rest_4"), "degree"),
    "bomb": (BOMB, "20,000,000 Gaussians"),
    "wrong count": (gzip.compress(packed_header(4_000_000_000)), "4,000,000,000 Gaussians"),
    "unknown version": (gzip.compress(packed_header(9, 7)), "version 7"),
    "invalid header": (gzip.compress(packed_header(9, 3, 200)), "header is invalid"),
    "empty": (gzip.compress(packed_header(0)), "no Gaussians"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_splats_are_rejected(tmp_path, name):
    data, message = BROKEN[name]
    path = tmp_path / "room.splat"
    path.write_bytes(data)
    with pytest.raises(SceneError) as error:
        load_scene(path)
    text = str(error.value)
    assert str(path) in text
    assert message in text
    assert "\n" not in text


@pytest.mark.parametrize("suffix", ["sog", "ksplat"])
def test_unsupported_formats_error_names_a_converter(tmp_path, suffix):
    with pytest.raises(SceneError, match="splat-transform"):
        read(tmp_path, b"PK\x03\x04" + bytes(60), f"room.{suffix}")


def test_capture_is_the_same_in_two_formats():
    first, second = (
        load_scene(test_data("splats", f"biker.{end}")) for end in ("spz", "compressed.ply")
    )
    # pytest.approx would compare half a million numbers one by one.
    assert_allclose(first.points, second.points, rtol=0, atol=2e-3)
    assert np.abs(first.colours.astype(int) - second.colours).max() <= 3
    assert_allclose(first.gaussians.opacities, second.gaussians.opacities, rtol=0, atol=5e-3)
    spreads = [covariances(s.gaussians.rotations, s.gaussians.scales) for s in (first, second)]
    assert_allclose(spreads[0], spreads[1], rtol=0.07, atol=2e-3)


def zeros_spz(count, degree):
    """Return an SPZ file of Gaussians that are all zero, as gzip compresses them."""
    width = 19 + 3 * ((degree + 1) ** 2 - 1)
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    parts = [packer.compress(struct.pack("<4sIIBBBB", b"NGSP", 2, count, degree, 12, 0, 0))]
    parts += [packer.compress(bytes(width * 10_000)) for _ in range(count // 10_000)]
    return b"".join([*parts, packer.flush()])


@pytest.mark.parametrize(("degree", "padding"), [(0, 0), (3, 0), (3, 8_000_000)])
def test_splats_that_decompress_to_too_much_are_refused_before_they_are_unpacked(
    tmp_path, monkeypatch, degree, padding
):
    """Regression test: 4 MB of compressed zeros took 6 GB, as what they decompress to was not checked."""
    unpacked = []
    (tmp_path / "zeros.spz").write_bytes(zeros_spz(4_000_000, degree) + bytes(padding))
    monkeypatch.setattr(f"{SPZ_MODULE}._positions", lambda *parts: unpacked.append(parts))
    monkeypatch.setattr(f"{SIZE_MODULE}.available_memory", lambda: (8 << 28, 4 << 28))
    reason = "Gaussians need .* of memory" if padding else "Gaussians, too many for"
    with pytest.raises(SceneError, match=f"4,000,000 {reason}"):
        load_scene(tmp_path / "zeros.spz")
    assert unpacked == []


def test_data_after_the_last_gaussian_is_noted(tmp_path):
    data = gzip.decompress(spz(random_splat(50)))
    for number, packed in enumerate((data, data + b"more")):
        path = tmp_path / f"{number}.spz"
        path.write_bytes(gzip.compress(packed))
        noted = any("after the last Gaussian" in note for note in read_scan(path).notes)
        assert noted is (number == 1)
