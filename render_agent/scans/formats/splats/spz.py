"""SPZ, Niantic's compressed splats: versions 1 to 3 in one gzip stream, version 4 in a zstd stream a part.

Format: https://github.com/nianticlabs/spz. Nothing is unpacked on a header's word alone: what a file
promises is compared with its size first, and no more is unpacked than it promised.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, require_reader, unreadable
from render_agent.scans.formats.splats.assemble import check_count, splat_scan
from render_agent.scans.formats.splats.ply_splat import with_largest

MAGIC = b"NGSP"
GZIP = b"\x1f\x8b"

MOST_EXPANSION = 250
"""Times: a file that promises to become larger than this, against its own size, is no splat."""

OLD_HEADER = struct.Struct("<4sIIBBBB")
NEW_HEADER = struct.Struct("<4sIIBBBBI12x")
COLOUR_STEP = 0.15
"""What a whole colour's constant harmonic is multiplied by."""

LARGEST_DEGREE = 4
"""The fourth degree may be in a file, and is left out."""

Parts = list[NDArray[np.uint8]]
"""Positions, opacities, colours, scales, rotations and harmonics, (n, bytes of one) each."""


@dataclass(frozen=True)
class _Header:
    version: int
    count: int
    degree: int
    fraction_bits: int
    flags: int

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes that a Gaussian takes in each part."""
        varying = 3 * ((self.degree + 1) ** 2 - 1)
        return (6 if self.version == 1 else 9, 1, 3, 3, 3 if self.version < 3 else 4, varying)


def is_packed_spz(start: bytes) -> bool:
    """Whether a file that begins so is one of versions 1 to 3, all of which is packed by gzip."""
    try:
        return start.startswith(GZIP) and zlib.decompressobj(31).decompress(start, 4) == MAGIC
    except zlib.error:
        return False


def read_spz(path: Path, size: int) -> Scan:
    """Return the splat of an SPZ file of `size` bytes, y up. SceneError where it is not whole."""
    data = path.read_bytes()
    if data.startswith(MAGIC):
        header, parts = _from_zstd(path, data)
    else:
        header, parts = _from_gzip(path, data)
    positions, opacities, colours, scales, rotations, varying = parts
    harmonics = np.zeros((header.count, min(header.degree + 1, 4) ** 2, 3), np.float32)
    harmonics[:, 0] = (colours / np.float32(255) - 0.5) / np.float32(COLOUR_STEP)
    kept = 3 * (harmonics.shape[1] - 1)
    harmonics[:, 1:].reshape(header.count, kept)[:] = (
        varying[:, :kept].astype(np.float32) - 128
    ) / 128
    notes = ("it was trained with antialiasing, which is not drawn",) if header.flags & 1 else ()
    return splat_scan(
        path,
        _positions(header, positions),
        np.exp(scales.astype(np.float32) / 16 - 10),
        _rotations(header, rotations),
        opacities[:, 0] / np.float32(255),
        harmonics,
        notes,
    )


def _checked(path: Path, data: bytes, fields: tuple[int, ...]) -> _Header:
    """Return a header whose promises a file of these bytes can keep."""
    version, count, degree, fraction_bits, flags = fields
    header = _Header(version, count, degree, fraction_bits, flags)
    if not 1 <= version <= 4:
        raise unreadable(
            path, f"it is SPZ of version {version}, and 1 to 4 are known", "convert it to PLY"
        )
    if degree > LARGEST_DEGREE or fraction_bits > 24:
        raise unreadable(path, "its SPZ header makes no sense")
    if sum(header.widths) * count > MOST_EXPANSION * len(data):
        raise unreadable(
            path,
            f"its header promises {count:,} Gaussians, more than {len(data):,} bytes can hold",
        )
    check_count(path, count)
    return header


def _from_gzip(path: Path, data: bytes) -> tuple[_Header, Parts]:
    stream = zlib.decompressobj(31)
    try:
        start = stream.decompress(data, OLD_HEADER.size)
        if len(start) < OLD_HEADER.size:
            raise unreadable(path, "its SPZ header is not whole")
        _, *fields, _ = OLD_HEADER.unpack(start)
        header = _checked(path, data, tuple(fields))
        if header.version > 3:
            raise unreadable(path, "it is SPZ of version 4 in the stream of version 3")
        needed = sum(header.widths) * header.count
        content = stream.decompress(stream.unconsumed_tail, needed)
    except zlib.error:
        raise unreadable(path, "its gzip stream is broken") from None
    if len(content) < needed:
        raise unreadable(path, f"it ends before its {header.count:,} Gaussians do")
    parts, first = [], 0
    for width in header.widths:
        part = np.frombuffer(content, np.uint8, width * header.count, first)
        parts.append(part.reshape(header.count, width))
        first += part.size
    return header, parts


def _from_zstd(path: Path, data: bytes) -> tuple[_Header, Parts]:
    if len(data) < NEW_HEADER.size:
        raise unreadable(path, "its SPZ header is not whole")
    _, *fields, streams, table = NEW_HEADER.unpack_from(data)
    header = _checked(path, data, tuple(fields))
    wanted = [width for width in header.widths if width]
    end = table + 16 * streams
    if (
        header.version < 4
        or streams < len(wanted)
        or not NEW_HEADER.size <= table
        or end > len(data)
    ):
        raise unreadable(path, "its SPZ header makes no sense")
    parts = []
    for index, width in enumerate(wanted):
        packed, unpacked = struct.unpack_from("<QQ", data, table + 16 * index)
        if unpacked != width * header.count or end + packed > len(data):
            raise unreadable(path, f"it ends before its {header.count:,} Gaussians do")
        content = _unpacked(path, data[end : end + packed], unpacked)
        parts.append(np.frombuffer(content, np.uint8).reshape(header.count, width))
        end += packed
    empty = np.empty((header.count, 0), np.uint8)
    return header, [*parts, empty] if len(parts) < len(header.widths) else parts


def _unpacked(path: Path, packed: bytes, size: int) -> bytes:
    """Return `size` bytes of a zstd stream, which may hold no fewer."""
    require_reader(path, "SPZ of version 4", "zstandard")
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(packed) as reader:
            content: bytes = reader.read(size)
    except zstandard.ZstdError:
        raise unreadable(path, "one of its zstd streams is broken") from None
    if len(content) < size:
        raise unreadable(path, "one of its zstd streams is cut short")
    return content


def _positions(header: _Header, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return positions, (n, 3): halves in version 1, since then fixed-point numbers of 24 bits."""
    if header.version == 1:
        return packed.reshape(-1).view("<f2").reshape(-1, 3).astype(np.float32)
    parts = packed.reshape(header.count, 3, 3).astype(np.int32)
    fixed = parts[..., 0] | parts[..., 1] << 8 | parts[..., 2] << 16
    fixed -= (fixed & 0x800000) << 1
    return np.asarray(fixed / np.float32(1 << header.fraction_bits), np.float32)


def _rotations(header: _Header, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return quaternions (w, x, y, z), (n, 4), in whose place the file has x, y, z and w."""
    if header.version < 3:
        three = packed.astype(np.float32) / np.float32(127.5) - 1
        quaternions = with_largest(three, np.full(header.count, 3))
    else:
        words = np.ascontiguousarray(packed).view("<u4")[:, 0]
        three = np.empty((header.count, 3), np.float32)
        for index in range(3):
            part = words >> np.uint32(10 * (2 - index))
            size = (part & np.uint32(511)).astype(np.float32) / np.float32(511 * np.sqrt(2))
            three[:, index] = np.where(part & np.uint32(512), -size, size)
        quaternions = with_largest(three, (words >> np.uint32(30)).astype(np.intp))
    return quaternions[:, [3, 0, 1, 2]]
