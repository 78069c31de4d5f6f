"""Read LAS and LAZ, the formats of survey scanners, chunk by chunk. The only module that imports laspy.

Format: ASPRS, "LAS Specification 1.4 - R15" (2019). Compressed files are read in a child process, because
lazrs aborts if a malformed chunk table makes it allocate too much memory.
"""

from __future__ import annotations

import os
import re
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from render_agent.errors import SceneError
from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.clouds.cloud_builder import CloudBuilder
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.declared_size import check_expansion, too_many
from render_agent.scans.formats.reading_process import parser_errors, read_in_child

CHUNK_POINTS = 2_000_000

NOISE = (7, 18)  # classes of low and high noise; the second exists from point format 6 on

# GeoTIFF keys and unit codes (in metres), from "GeoTIFF Format Specification 1.0" (1995).
GEO_KEY_MODEL_TYPE, GEOGRAPHIC = 1024, 2
GEO_KEY_LINEAR_UNIT, GEO_KEY_VERTICAL_UNIT = 3076, 4099
GEO_UNITS = {9001: 1.0, 9002: 0.3048, 9003: 1200 / 3937}  # metre, foot, US survey foot

WKT_UNIT = re.compile(r'\b(?:LENGTH)?UNIT\s*\[\s*"([^"]*)"\s*,\s*([0-9.eE+-]+)')
WKT_VERTICAL = re.compile(r"\b(?:VERT_CS|VERTCRS|VERTICALCRS)\s*\[")
EVLR = struct.Struct("<2x16sHQ32x")  # header of an extended record: user, number, length
WKT_RECORD, MAX_WKT_BYTES, MAX_EVLRS = 2112, 1 << 16, 1000
ANGLES = ("degree", "grad", "radian", "arc")


def read_las(path: Path, size: int) -> Scan:
    """Read a LAS or LAZ file of `size` bytes, with its colours or else its intensities as grey."""
    with path.open("rb") as file:
        is_compressed = _check_header(path, file.read(375), size)
    return read_in_child(read_directly, path, size) if is_compressed else read_directly(path, size)


def _check_header(path: Path, header: bytes, size: int) -> bool:
    """Return True if the points are compressed; raise SceneError if the header declares more than fits in the file."""
    if len(header) < 227:
        raise unreadable(path, "it ends within its header")
    if not all(map(abs, struct.unpack_from("<3d", header, 131))):
        raise unreadable(path, "its header declares a scale of 0")
    version = header[24], header[25]
    header_size, start, records = struct.unpack_from("<HII", header, 94)
    point_format, length, points = struct.unpack_from("<BHI", header, 104)
    num_extended = 0
    if version >= (1, 4) and len(header) >= 375:
        extended_start, num_extended, points_14 = struct.unpack_from("<QIQ", header, 235)
        points = points_14 or points
        if num_extended and extended_start > size:
            raise unreadable(path, "its extended records start after its end")
    is_compressed = bool(point_format & 0x80)
    if max(start, header_size) > size or 54 * records + 60 * num_extended > size:
        raise unreadable(path, f"its header declares too many records for {size:,} bytes")
    if is_compressed:
        check_expansion(path, size, points * length, f"{points:,} points")
    elif points > (size - start) // max(length, 1):
        raise too_many(path, size, f"{points:,} points")
    return is_compressed


def read_directly(path: Path, size: int) -> Scan:
    """Read the points of a file whose header was checked."""
    import laspy

    with parser_errors(path, "LAS"), laspy.open(path, read_evlrs=False) as reader:
        metres, height_factor = _units(path, reader.header)
        point_format = reader.header.point_format
        names = set(point_format.dimension_names)
        declared = Declared([*point_format.extra_dimension_names, *({"nir"} & names)])
        cloud = CloudBuilder(bits=16)
        noise = NOISE if point_format.id >= 6 else NOISE[:1]
        num_withheld = num_noise = 0
        for chunk in reader.chunk_iterator(CHUNK_POINTS):
            valid = np.asarray(chunk["withheld"]) == 0
            num_withheld += int((~valid).sum())
            is_noise = valid & np.isin(chunk["classification"], noise)
            num_noise += int(is_noise.sum())
            valid &= ~is_noise
            colours = None
            if {"red", "green", "blue"} <= names:
                colours = np.column_stack([chunk["red"], chunk["green"], chunk["blue"]])[valid]
            points = np.column_stack([chunk.x, chunk.y, np.asarray(chunk.z) * height_factor])
            cloud.add(points[valid], colours, np.asarray(chunk["intensity"])[valid])
    notes = []
    surplus = _surplus(reader.header, size)
    if surplus:
        declared.add(f"{surplus:,} bytes after the last point")
    if num_withheld:
        notes.append(f"{num_withheld:,} withheld points were dropped")
    if num_noise:
        notes.append(f"{num_noise:,} points classified as noise were dropped")
    if height_factor != 1:
        notes.append("heights were converted to the unit of the other axes")
    scan = cloud.scan()
    return replace(scan, metres=metres, notes=(*notes, *scan.notes, *declared.notes))


def _surplus(header: Any, size: int) -> int:
    """Return the number of bytes between the last point and what follows the points, if they could be points."""
    length = header.point_format.size
    if header.are_points_compressed:
        return 0
    ends = [header.start_of_first_evlr or size, header.start_of_waveform_data_packet_record or size]
    surplus = min(ends) - header.offset_to_point_data - header.point_count * length
    return int(surplus) if surplus >= length else 0


def _units(path: Path, header: Any) -> tuple[float | None, float]:
    """Return the unit of the file's coordinate system in metres, None if it specifies none, and the factor of heights."""
    metres: float | None = None
    vertical: float | None = None
    for record in (*header.vlrs, *_extended_crs(path, header)):
        if hasattr(record, "geo_keys"):
            keys = {key.id: key.value_offset for key in record.geo_keys}
            if keys.get(GEO_KEY_MODEL_TYPE) == GEOGRAPHIC:
                raise _geographic(path)
            metres = GEO_UNITS.get(keys.get(GEO_KEY_LINEAR_UNIT, 0), metres)
            vertical = GEO_UNITS.get(keys.get(GEO_KEY_VERTICAL_UNIT, 0), vertical)
        elif text := getattr(record, "string", ""):
            horizontal, *heights = WKT_VERTICAL.split(text, 1)
            units = _linear_units(horizontal)
            if re.search(r"\bGEOG", horizontal) and not re.search(r"\bPROJ", horizontal):
                raise _geographic(path)
            # The unit of a projected system follows those of the systems it is based on.
            metres = units[-1] if units else metres
            units = _linear_units(heights[0]) if heights else []
            vertical = units[-1] if units else vertical
    return metres, vertical / metres if vertical and metres else 1.0


def _extended_crs(path: Path, header: Any) -> list[SimpleNamespace]:
    """Return the coordinate system from the extended records, which are not read otherwise: they may be huge."""
    with path.open("rb") as file:
        file.seek(header.start_of_first_evlr or 0)
        for _ in range(min(header.number_of_evlrs or 0, MAX_EVLRS)):
            record = file.read(EVLR.size)
            if len(record) < EVLR.size:
                break
            user, number, length = EVLR.unpack(record)
            if user.rstrip(b"\0") == b"LASF_Projection" and number == WKT_RECORD:
                text = file.read(min(length, MAX_WKT_BYTES)).decode("utf-8", "replace")
                return [SimpleNamespace(string=text)]
            file.seek(length, os.SEEK_CUR)
    return []


def _linear_units(text: str) -> list[float]:
    """Return the units of length in a part of a WKT string, in metres."""
    return [
        float(value)
        for name, value in WKT_UNIT.findall(text)
        if not name.lower().startswith(ANGLES) and 1e-4 < float(value) < 1e4
    ]


def _geographic(path: Path) -> SceneError:
    return unreadable(
        path, "its coordinates are longitude and latitude in degrees", "project it to metres"
    )
