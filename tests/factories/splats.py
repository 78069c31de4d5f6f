"""Splats, and independent writers for every splat format."""

from __future__ import annotations

import gzip
import io
import struct
from dataclasses import replace

import numpy as np

from factories.scans import ply
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.scene import Scene

C0 = 0.28209479177387814


def random_splat(count=300, degree=3, seed=0, size=(4.0, 3.0, 2.5)) -> Scene:
    """Return a splat of random Gaussians in a room of `size` metres with a corner at the origin."""
    random = np.random.default_rng(seed)
    turns = random.normal(size=(count, 4))
    harmonics = random.normal(0, 0.15, (count, (degree + 1) ** 2, 3))
    harmonics[:, 0] = (random.random((count, 3)) - 0.5) / C0
    gaussians = Gaussians(
        random.uniform(0.01, 0.15, (count, 3)).astype(np.float32),
        (turns / np.linalg.norm(turns, axis=1, keepdims=True)).astype(np.float32),
        random.uniform(0.02, 0.98, count).astype(np.float32),
        harmonics.astype(np.float32),
        np.eye(3),
    )
    return splat_of(random.random((count, 3)) * size, gaussians)


def splat_of(points, gaussians) -> Scene:
    """Return a scene of Gaussians at points, (n, 3) metres."""
    points = np.asarray(points, np.float32)
    colours = np.clip(0.5 + C0 * gaussians.harmonics[:, 0], 0, 1) * 255
    bounds = np.array([points.min(axis=0), points.max(axis=0)], float)
    return Scene(
        "splat", points, colours.round().astype(np.uint8), None,
        float(bounds[0, 2]), float(bounds[1, 2]), bounds, gaussians=gaussians,
    )  # fmt: skip


def balls(points, colours, radius=0.05, opacity=0.99) -> Scene:
    """Return a splat of isotropic Gaussians with constant colours, (n, 3) from 0 to 255."""
    points = np.asarray(points, float).reshape(-1, 3)
    count = len(points)
    turns = np.tile(np.float32([1, 0, 0, 0]), (count, 1))
    harmonics = (np.broadcast_to(colours, (count, 3)) / 255 - 0.5) / C0
    gaussians = Gaussians(
        np.full((count, 3), radius, np.float32),
        turns,
        np.broadcast_to(np.float32(opacity), (count,)).astype(np.float32),
        harmonics[:, None].astype(np.float32),
        np.eye(3),
    )
    return splat_of(points, gaussians)


def as_splat(mesh: Scene, count: int) -> Scene:
    """Convert a mesh to flat Gaussians at `count` even samples of its surface."""
    random = np.random.default_rng(0)
    corners = mesh.points[mesh.faces].astype(float)
    cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    doubles = np.linalg.norm(cross, axis=1)
    totals = np.cumsum(doubles / 2)
    along = (np.arange(count) + random.random(count)) / count * totals[-1]
    face = np.minimum(np.searchsorted(totals, along, "right"), len(totals) - 1)
    u, v = random.random((2, count, 1))
    u, v = np.where(u + v > 1, 1 - u, u), np.where(u + v > 1, 1 - v, v)
    points = np.einsum("nk,nkd->nd", np.hstack([1 - u - v, u, v]), corners[face])
    colours = mesh.colours[mesh.faces[face, 0]]
    x, y, z = (cross[face] / doubles[face, None]).T
    turns = np.stack([1 + z, -y, x, np.zeros_like(z)], axis=1)
    turns[z < -0.9999] = (0, 1, 0, 0)
    spacing = np.sqrt(totals[-1] / count)
    scales = np.full((count, 3), 0.7 * spacing)
    scales[:, 2] = min(0.001, spacing / 10)
    gaussians = Gaussians(
        scales.astype(np.float32),
        (turns / np.linalg.norm(turns, axis=1, keepdims=True)).astype(np.float32),
        np.full(count, 0.95, np.float32),
        ((colours / 255 - 0.5) / C0)[:, None].astype(np.float32),
        np.eye(3),
    )
    return replace(
        mesh,
        points=points.astype(np.float32),
        colours=colours,
        faces=None,
        gaussians=gaussians,
    )


def original_ply(scene: Scene, order="binary_little_endian", comment="") -> bytes:
    """Encode a splat as the original implementation does."""
    g = scene.gaussians
    rest = g.harmonics[:, 1:].transpose(0, 2, 1).reshape(len(g.scales), -1)
    names = ["x", "y", "z", "nx", "ny", "nz", *(f"f_dc_{i}" for i in range(3))]
    names += [f"f_rest_{i}" for i in range(rest.shape[1])]
    names += ["opacity", *(f"scale_{i}" for i in range(3)), *(f"rot_{i}" for i in range(4))]
    table = np.hstack(
        [
            scene.points, np.zeros_like(scene.points), g.harmonics[:, 0], rest,
            np.log(g.opacities / (1 - g.opacities))[:, None], np.log(g.scales), 3 * g.rotations,
        ]
    )  # fmt: skip
    data = ply([("vertex", tuple(("float", name) for name in names), table)], order)
    return data.replace(b"element", f"comment {comment}\nelement".encode(), 1) if comment else data


def compressed_ply(scene: Scene) -> bytes:
    """Encode a splat as PlayCanvas's tools do: chunks of 256, then four words per Gaussian."""
    g = scene.gaussians
    colours = 0.5 + C0 * g.harmonics[:, 0]
    parts = {
        "": scene.points.astype(np.float64), "scale_": np.log(g.scales), "colour": colours,
    }  # fmt: skip
    chunks, words = [], []
    for first in range(0, len(scene.points), 256):
        part = slice(first, first + 256)
        lows = {key: values[part].min(axis=0) for key, values in parts.items()}
        highs = {key: values[part].max(axis=0) for key, values in parts.items()}
        chunks.append(
            [
                *lows[""],
                *highs[""],
                *lows["scale_"],
                *highs["scale_"],
                *lows["colour"],
                *highs["colour"],
            ]
        )
        shares = {
            key: (values[part] - lows[key]) / np.maximum(highs[key] - lows[key], 1e-9)
            for key, values in parts.items()
        }
        colour = np.column_stack([shares["colour"], g.opacities[part]])
        words.append(
            np.column_stack(
                [
                    _joined(shares[""], (11, 10, 11)), _packed_turns(g.rotations[part]),
                    _joined(shares["scale_"], (11, 10, 11)), _joined(colour, (8, 8, 8, 8)),
                ]
            )
        )  # fmt: skip
    limits = [
        f"{end}_{prefix}{name}"
        for prefix, names in (("", "xyz"), ("scale_", "xyz"), ("", "rgb"))
        for end in ("min", "max")
        for name in names
    ]
    packed = ("packed_position", "packed_rotation", "packed_scale", "packed_color")
    elements = [
        ("chunk", tuple(("float", name) for name in limits), np.array(chunks)),
        ("vertex", tuple(("uint", name) for name in packed), np.concatenate(words)),
    ]
    varying = g.harmonics[:, 1:].transpose(0, 2, 1).reshape(len(g.scales), -1)
    if varying.shape[1]:
        bytes_ = np.clip(np.trunc((varying / 8 + 0.5) * 256), 0, 255).astype(int)
        names = tuple(("uchar", f"f_rest_{i}") for i in range(varying.shape[1]))
        elements.append(("sh", names, bytes_))
    return ply(elements, "binary_little_endian")


def _joined(shares, bits):
    words = np.zeros(len(shares), np.int64)
    for column, width in zip(shares.T, bits, strict=True):
        words = words << width | np.rint(np.clip(column, 0, 1) * ((1 << width) - 1)).astype(
            np.int64
        )
    return words


def _packed_turns(turns):
    words = []
    for turn in turns.astype(float):
        largest = int(np.abs(turn).argmax())
        turn = turn * np.sign(turn[largest])
        others = [value for index, value in enumerate(turn) if index != largest]
        word = largest
        for value in others:
            word = word << 10 | round((value / np.sqrt(2) + 0.5) * 1023)
        words.append(word)
    return np.array(words, np.int64)


def spz(scene: Scene, version=3) -> bytes:
    """Encode a splat as SPZ version 1 to 4."""
    g = scene.gaussians
    count, degree = len(g.scales), int(np.sqrt(g.harmonics.shape[1])) - 1
    if version == 1:
        positions = scene.points.astype("<f2").tobytes()
    else:
        fixed = np.rint(scene.points.astype(float) * 4096).astype("<i4")
        positions = fixed.view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
    turns = np.array([_spz_turn(turn, version) for turn in g.rotations[:, [1, 2, 3, 0]]], np.uint8)
    parts = [
        positions,
        _bytes(g.opacities * 255),
        _bytes(g.harmonics[:, 0] * 0.15 * 255 + 127.5),
        _bytes((np.log(g.scales) + 10) * 16),
        turns.tobytes(),
        _bytes(g.harmonics[:, 1:] * 128 + 128),
    ]
    fields = (b"NGSP", version, count, degree, 12, 0)
    if version < 4:
        return gzip.compress(struct.pack("<4sIIBBBB", *fields, 0) + b"".join(parts), mtime=0)
    import zstandard

    parts = [part for part in parts if part]
    packed = [zstandard.compress(part) for part in parts]
    sizes = [struct.pack("<QQ", len(a), len(b)) for a, b in zip(packed, parts, strict=True)]
    header = struct.pack("<4sIIBBBBI12x", *fields, len(parts), 32)
    return header + b"".join(sizes) + b"".join(packed)


def _bytes(values):
    return np.clip(np.rint(values), 0, 255).astype(np.uint8).tobytes()


def _spz_turn(turn, version):
    turn = turn.astype(float)
    if version < 3:
        turn = turn * (1 if turn[3] >= 0 else -1)
        return [round(value * 127.5 + 127.5) for value in turn[:3]]
    largest = int(np.abs(turn).argmax())
    turn = turn * np.sign(turn[largest])
    word = largest
    for index, value in enumerate(turn):
        if index != largest:
            word = word << 10 | (value < 0) << 9 | round(abs(value) * np.sqrt(2) * 511)
    return list(struct.pack("<I", word))


def dot_splat(scene: Scene) -> bytes:
    """Encode a splat with 32 bytes per Gaussian (`.splat`)."""
    g = scene.gaussians
    colours = np.column_stack([0.5 + C0 * g.harmonics[:, 0], g.opacities])
    out = io.BytesIO()
    for point, scale, colour, turn in zip(
        scene.points, g.scales, colours, g.rotations, strict=True
    ):
        out.write(struct.pack("<6f", *point, *scale))
        out.write(_bytes(colour * 255) + _bytes(turn * 128 + 128))
    return out.getvalue()
