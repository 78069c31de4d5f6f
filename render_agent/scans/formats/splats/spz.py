"""Read SPZ, Niantic's compressed splats: versions 1 to 3 are one gzip stream, version 4 has zstd streams.

Format: https://github.com/nianticlabs/spz. The declared sizes are checked against the file size before
anything is decompressed, and decompression is limited to them.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, require_reader, unreadable
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.declared_size import check_expansion
from render_agent.scans.formats.splats.assemble import check_count, splat_scan
from render_agent.scans.formats.splats.ply_splat import complete_quaternions

MAGIC = b"NGSP"
GZIP = b"\x1f\x8b"

OLD_HEADER = struct.Struct("<4sIIBBBB")
NEW_HEADER = struct.Struct("<4sIIBBBBI12x")
COLOUR_STEP = 0.15  # scale of the constant harmonic in the file
MAX_DEGREE = 4  # a file may contain degree 4, which is ignored

ObjectParts = list[NDArray[np.uint8]]
"""Positions, opacities, colours, scales, rotations and harmonics, each (n, bytes per Gaussian)."""


@dataclass(frozen=True)
class _Header:
    version: int
    count: int
    degree: int
    fraction_bits: int
    flags: int
    has_surplus: bool = False  # data after the last Gaussian

    @property
    def widths(self) -> tuple[int, ...]:
        """Bytes per Gaussian in each part."""
        varying = 3 * ((self.degree + 1) ** 2 - 1)
        return (6 if self.version == 1 else 9, 1, 3, 3, 3 if self.version < 3 else 4, varying)


def is_packed_spz(start: bytes) -> bool:
    """Return True if the file is SPZ version 1 to 3, which is gzip-compressed as a whole."""
    try:
        return start.startswith(GZIP) and zlib.decompressobj(31).decompress(start, 4) == MAGIC
    except zlib.error:
        return False


def read_spz(path: Path, size: int) -> Scan:
    """Read an SPZ file of `size` bytes, y up; raise SceneError if it is damaged."""
    return spz_scan(path, path.read_bytes())


def spz_scan(path: Path, data: bytes) -> Scan:
    """Return the splat in SPZ data; `path` is the file with it, for error messages."""
    if data.startswith(MAGIC) and int.from_bytes(data[4:8], "little") > 3:
        header, parts = _read_zstd(path, data)
    else:
        header, parts = _read_stream(path, data)
    positions, opacities, colours, scales, rotations, varying = parts
    harmonics = np.zeros((header.count, min(header.degree + 1, 4) ** 2, 3), np.float32)
    harmonics[:, 0] = (colours / np.float32(255) - 0.5) / np.float32(COLOUR_STEP)
    num_varying = 3 * (harmonics.shape[1] - 1)
    harmonics[:, 1:].reshape(header.count, num_varying)[:] = (
        varying[:, :num_varying].astype(np.float32) - 128
    ) / 128
    notes = ("trained with antialiasing, which is not rendered",) if header.flags & 1 else ()
    declared = Declared()
    if header.flags & 2:
        declared.add("SPZ extensions")
    elif header.has_surplus:
        declared.add("data after the last Gaussian")
    if header.flags & ~3:
        declared.add(f"SPZ flags 0x{header.flags & ~3:x}")
    if header.degree > 3:
        declared.add(f"spherical harmonics of degree {header.degree}")
    return splat_scan(
        path,
        _positions(header, positions),
        np.exp(scales.astype(np.float32) / 16 - 10),
        _rotations(header, rotations),
        opacities[:, 0] / np.float32(255),
        harmonics,
        (*notes, *declared.notes),
    )


def _check_header(path: Path, data: bytes, fields: tuple[int, ...]) -> _Header:
    """Return the header after checking its sizes against the file size."""
    version, count, degree, fraction_bits, flags = fields
    header = _Header(version, count, degree, fraction_bits, flags)
    if not 1 <= version <= 4:
        raise unreadable(
            path, f"SPZ version {version} is not supported (only 1 to 4)", "convert it to PLY"
        )
    if degree > MAX_DEGREE or fraction_bits > 24:
        raise unreadable(path, "its SPZ header is invalid")
    check_expansion(path, len(data), sum(header.widths) * count, f"{count:,} Gaussians")
    check_count(path, count, min(degree + 1, 4) ** 2)
    return header


def _read_stream(path: Path, data: bytes) -> tuple[_Header, ObjectParts]:
    """Read version 1 to 3, which some programs do not compress."""
    stream = zlib.decompressobj(31)
    is_packed = not data.startswith(MAGIC)
    try:
        start = stream.decompress(data, OLD_HEADER.size) if is_packed else data[: OLD_HEADER.size]
        if len(start) < OLD_HEADER.size:
            raise unreadable(path, "its SPZ header is incomplete")
        _, *fields, _ = OLD_HEADER.unpack(start)
        header = _check_header(path, data, tuple(fields))
        if header.version > 3:
            raise unreadable(path, "it is SPZ version 4 in a gzip stream")
        num_bytes = sum(header.widths) * header.count
        if is_packed:
            content = stream.decompress(stream.unconsumed_tail, num_bytes + 1)
        else:
            content = data[OLD_HEADER.size :][: num_bytes + 1]
    except zlib.error:
        raise unreadable(path, "its gzip stream is corrupt") from None
    if len(content) < num_bytes:
        raise unreadable(path, f"it ends before the last of its {header.count:,} Gaussians")
    header = replace(header, has_surplus=len(content) > num_bytes)
    parts, first = [], 0
    for width in header.widths:
        part = np.frombuffer(content, np.uint8, width * header.count, first)
        parts.append(part.reshape(header.count, width))
        first += part.size
    return header, parts


def _read_zstd(path: Path, data: bytes) -> tuple[_Header, ObjectParts]:
    if len(data) < NEW_HEADER.size:
        raise unreadable(path, "its SPZ header is incomplete")
    _, *fields, streams, table = NEW_HEADER.unpack_from(data)
    header = _check_header(path, data, tuple(fields))
    widths = [width for width in header.widths if width]
    end = table + 16 * streams
    if (
        header.version < 4
        or streams < len(widths)
        or not NEW_HEADER.size <= table
        or end > len(data)
    ):
        raise unreadable(path, "its SPZ header is invalid")
    parts = []
    for index, width in enumerate(widths):
        packed, unpacked = struct.unpack_from("<QQ", data, table + 16 * index)
        if unpacked != width * header.count or end + packed > len(data):
            raise unreadable(path, f"it ends before the last of its {header.count:,} Gaussians")
        content = _decompress_zstd(path, data[end : end + packed], unpacked)
        parts.append(np.frombuffer(content, np.uint8).reshape(header.count, width))
        end += packed
    empty = np.empty((header.count, 0), np.uint8)
    return header, [*parts, empty] if len(parts) < len(header.widths) else parts


def _decompress_zstd(path: Path, data: bytes, size: int) -> bytes:
    """Decompress a zstd stream to `size` bytes; raise SceneError if it has fewer."""
    require_reader(path, "SPZ version 4", "zstandard")
    import zstandard

    try:
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            content: bytes = reader.read(size)
    except zstandard.ZstdError:
        raise unreadable(path, "one of its zstd streams is corrupt") from None
    if len(content) < size:
        raise unreadable(path, "one of its zstd streams is truncated")
    return content


def _positions(header: _Header, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return positions, (n, 3): float16 in version 1, later 24-bit fixed-point numbers."""
    if header.version == 1:
        return packed.reshape(-1).view("<f2").reshape(-1, 3).astype(np.float32)
    parts = packed.reshape(header.count, 3, 3).astype(np.int32)
    fixed = parts[..., 0] | parts[..., 1] << 8 | parts[..., 2] << 16
    fixed -= (fixed & 0x800000) << 1
    return np.asarray(fixed / np.float32(1 << header.fraction_bits), np.float32)


def _rotations(header: _Header, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return quaternions (w, x, y, z), (n, 4); the file stores x, y, z, w."""
    if header.version < 3:
        three = packed.astype(np.float32) / np.float32(127.5) - 1
        quaternions = complete_quaternions(three, np.full(header.count, 3))
    else:
        words = np.ascontiguousarray(packed).view("<u4")[:, 0]
        three = np.empty((header.count, 3), np.float32)
        for index in range(3):
            part = words >> np.uint32(10 * (2 - index))
            size = (part & np.uint32(511)).astype(np.float32) / np.float32(511 * np.sqrt(2))
            three[:, index] = np.where(part & np.uint32(512), -size, size)
        quaternions = complete_quaternions(three, (words >> np.uint32(30)).astype(np.intp))
    return quaternions[:, [3, 0, 1, 2]]
