"""Read E57, the exchange format of terrestrial scanners, with several scans and their poses. The only module that
imports pye57.

Format: ASTM E2807. The files are untrusted and the library is written in C++, so it runs in a child
process and reads chunk by chunk.
"""

from __future__ import annotations

import struct
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.clouds.cloud_builder import CloudBuilder
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.declared_size import check_expansion
from render_agent.scans.formats.reading_process import parser_errors, read_in_child

CHUNK_POINTS = 1_000_000
BYTES_PER_POINT = 24  # three coordinates

CARTESIAN = ("cartesianX", "cartesianY", "cartesianZ")
SPHERICAL = ("sphericalRange", "sphericalAzimuth", "sphericalElevation")
COLOURS = ("colorRed", "colorGreen", "colorBlue")

INVALID_COLOUR = "isColorInvalid"
# Fields that change neither geometry nor colour.
BOOKKEEPING = (
    "rowIndex", "columnIndex", "returnIndex", "returnCount", "timeStamp", "isTimeStampInvalid",
    "isIntensityInvalid",
)  # fmt: skip

Floats = NDArray[np.float64]


def read_e57(path: Path, size: int) -> Scan:
    """Read an E57 file of `size` bytes; joins all scans, each transformed by its pose."""
    with path.open("rb") as file:
        header = file.read(48)
    if len(header) < 48:
        raise unreadable(path, "it ends within its header")
    length, xml_start, xml_length = struct.unpack_from("<QQQ", header, 16)
    if max(length, xml_start, xml_length) > size:
        raise unreadable(path, f"its header declares more than its {size:,} bytes")
    return read_in_child(read_directly, path, size)


def read_directly(path: Path, size: int) -> Scan:
    """Read the file with pye57 in this process."""
    from pye57 import libe57

    with parser_errors(path, "E57"), closing(libe57.ImageFile(str(path), "r")) as file:
        return _read(file, path, size)


def _read(file: Any, path: Path, size: int) -> Scan:
    from pye57 import ScanHeader

    scans = [ScanHeader(node) for node in file.root()["data3D"]]
    num_points = sum(scan.points.childCount() for scan in scans)
    check_expansion(path, size, num_points * BYTES_PER_POINT, f"{num_points:,} points")
    nonempty_scans = [scan for scan in scans if scan.points.childCount()]
    have_limits = all(_red_limits(scan) for scan in nonempty_scans)
    cloud = CloudBuilder(bits=0 if have_limits else None)
    num_invalid = 0
    declared = Declared(name for scan in nonempty_scans for name in scan.point_fields)
    declared.use(*BOOKKEEPING)
    for scan in nonempty_scans:
        top = 1.0 if have_limits else 255.0
        num_invalid += _add(file, scan, cloud, path, declared, top=top)
    if file.root().isDefined("images2D") and file.root()["images2D"].childCount():
        declared.add("images")
    scan = cloud.scan()
    notes = [f"{num_invalid:,} points marked as invalid were dropped"] if num_invalid else []
    return replace(scan, notes=(*notes, *scan.notes, *declared.notes))


def _add(
    file: Any, scan: Any, cloud: CloudBuilder, path: Path, declared: Declared, top: float
) -> int:
    """Add a scan to the cloud; colours with declared limits are scaled to 0 to `top`."""
    from pye57 import libe57
    from pye57.utils import convert_spherical_to_cartesian

    fields = set(scan.point_fields)
    axes = CARTESIAN if fields >= set(CARTESIAN) else SPHERICAL
    if not fields >= set(axes):
        raise unreadable(path, "a scan has no coordinates")
    invalid = axes[0][: -len("X" if axes is CARTESIAN else "Range")] + "InvalidState"
    colours = COLOURS if fields >= set(COLOURS) else ()
    names = [*axes, *colours, *({"intensity", invalid, INVALID_COLOUR} & fields)]
    declared.use(*names)
    columns = {name: np.empty(CHUNK_POINTS) for name in names}
    buffers = libe57.VectorSourceDestBuffer()
    for name, column in columns.items():
        buffers.append(libe57.SourceDestBuffer(file, name, column, CHUNK_POINTS, True, True))
    turn, shift = _pose(scan, path)
    low, high = _red_limits(scan) or (0.0, top)
    reader = scan.points.reader(buffers)
    num_invalid = 0
    while count := reader.read():
        part = {name: column[:count] for name, column in columns.items()}
        is_valid = part[invalid] == 0 if invalid in part else np.ones(count, bool)
        num_invalid += count - int(is_valid.sum())
        coordinates = np.column_stack([part[name] for name in axes])[is_valid]
        points = coordinates if axes is CARTESIAN else convert_spherical_to_cartesian(coordinates)
        levels = None
        if colours:
            levels = np.column_stack([part[name] for name in colours])[is_valid]
            levels = (levels - low) * (top / (high - low))
            if INVALID_COLOUR in part:
                levels[part[INVALID_COLOUR][is_valid] != 0] = np.nan
        cloud.add(
            points @ turn.T + shift,
            levels,
            part["intensity"][is_valid] if "intensity" in part else None,
        )
    reader.close()
    return num_invalid


def _pose(scan: Any, path: Path) -> tuple[Floats, Floats]:
    """Return the rotation, (3, 3), and translation, (3,), of a scan."""
    if not scan.has_pose():
        return np.eye(3), np.zeros(3)
    turn, shift = np.asarray(scan.rotation_matrix, float), np.asarray(scan.translation, float)
    if not (np.isfinite(shift).all() and np.abs(turn @ turn.T - np.eye(3)).max() < 1e-3):
        raise unreadable(path, "the pose of a scan is not a rotation and translation")
    return turn, shift


def _red_limits(scan: Any) -> tuple[float, float] | None:
    """Return the declared minimum and maximum of red, which apply to the other channels, too; None if undeclared."""
    if scan.node.isDefined("colorLimits"):
        limits = scan.node["colorLimits"]
        if limits.isDefined("colorRedMinimum") and limits.isDefined("colorRedMaximum"):
            low = float(limits["colorRedMinimum"].value())
            high = float(limits["colorRedMaximum"].value())
            if high > low:
                return low, high
    return None
