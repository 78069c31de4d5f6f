"""Load a scan file as a scene."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from render_agent.errors import SceneError
from render_agent.scans.extent import Extent, measure_extent
from render_agent.scans.file_frame import AUTO, METRES, AnyUnit, Axis, FileFrame, Up
from render_agent.scans.formats.assumed_frame import (
    choose_up,
    refuse_impossible,
    refuse_too_wide,
    side_note,
    unit_note,
)
from render_agent.scans.formats.axis_alignment import missing_note, read_alignment
from render_agent.scans.formats.cleaning import (
    Scan,
    clean_scan,
    transform_scan,
    unreadable,
    upright_turn,
)
from render_agent.scans.formats.point_cloud import cloud_normals, shaded_colours, thin_cloud
from render_agent.scans.formats.readers import format_of
from render_agent.scans.formats.shading import shade_mesh
from render_agent.scans.scene import Scene
from render_agent.scans.solid import find_solid
from render_agent.util.file_digests import digests_of

UNCOLOURED_NOTE = "the scan has no colours; surfaces are shaded by orientation"

# Splats trained on photographs use the axes of the first camera, with y down.
CAMERA_UP: Axis = "-y"


def load_scene(
    path: Path,
    id: str | None = None,  # name of the scene; None uses the file name
    up: Up = AUTO,
    unit: AnyUnit = AUTO,
) -> Scene:
    """Load the scene, in metres with z up, in a scan file of any format of `readers.FORMATS`.

    `up` auto uses what the file or its format specifies, else z; of a mesh, the one of y and z that has a floor at the bottom.

    Scans without colours are shaded, very large clouds are thinned, scans far from zero are shifted (see
    `Scene.origin`), and ScanNet meshes are aligned with the text file next to them.
    """
    path = Path(path)
    try:
        scan, frame = _read(path, up, unit)
        notes: list[str | None] = []
        alignment = read_alignment(path)
        if alignment is not None:
            scan = transform_scan(scan, alignment[:3, :3], shift=alignment[:3, 3])
        scan = clean_scan(scan, path)
        has_unit, solid_points = unit != AUTO, scan.points
        if scan.gaussians is not None:
            surface = find_solid(scan.points, scan.gaussians)
            scan = replace(scan, gaussians=replace(scan.gaussians, solid=surface))
            solid_points = scan.points[surface]
        refuse_too_wide(solid_points, path, frame.metres, declared=has_unit)
        if scan.faces is None and scan.gaussians is None:
            scan = thin_cloud(scan)
        extent = measure_extent(scan)
        refuse_impossible(extent, path, frame.metres, declared=has_unit)
        if scan.metres is None and not has_unit:
            notes += [unit_note(extent)]
        if scan.up is None and up == AUTO:
            notes += [side_note(extent, frame.up)]
        notes += [missing_note(path)]
        if scan.colours is None:
            notes += [UNCOLOURED_NOTE]
        scan = replace(scan, notes=(*scan.notes, *filter(None, notes)))
        return _scene(scan, extent, path, path.stem if id is None else id, frame)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise unreadable(path, reason, "check its name and permissions") from None
    except MemoryError:
        raise unreadable(path, "it does not fit in memory", "reduce its size") from None


def read_scan(path: Path, up: Up = AUTO, unit: AnyUnit = AUTO) -> Scan:
    """Return the scan in a file, z up, in metres, without cleaning; raise SceneError if the file is damaged."""
    return _read(path, up, unit)[0]


def _read(path: Path, up: Up, unit: AnyUnit) -> tuple[Scan, FileFrame]:
    """Return the scan in metres with z up, and the frame of its file.

    `Scan.up` and `Scan.metres` are what the file or its format specifies, None if unknown. Exporters often ignore that
    glTF and OBJ are y up, so these formats do not count as a specification.
    """
    size = _size(path)
    file_format = format_of(path, size)
    scan = file_format.read(path, size)
    metres = scan.metres or (METRES[file_format.unit] if file_format.unit else None)
    file_up, usual_up, notes = scan.up, file_format.up or "z", scan.notes
    if usual_up == "z":
        file_up = file_up or file_format.up
    if scan.gaussians is not None and scan.up is None:
        usual_up = file_up = file_format.up or CAMERA_UP
        reason = "the SPZ convention" if file_format.up else "as in photographs"
        if up == AUTO:
            notes += (
                f"assumed {file_up} up ({reason}; splats do not specify it); override with --up",
            )
    file_metres = (metres or 1.0) if unit == AUTO else METRES[unit]
    chosen_up = (file_up or usual_up) if up == AUTO else up
    if file_up is None and up == AUTO:
        chosen_up, note = choose_up(scan, usual_up, file_metres)
        notes += (note,) if note else ()
    scan = replace(scan, up=file_up, metres=metres, notes=notes)
    assumptions: dict[Literal["up", "unit"], bool] = {
        "up": up == AUTO and not file_up and chosen_up != file_format.up,
        "unit": not scan.metres and unit == AUTO,
    }
    frame = FileFrame(
        chosen_up,
        file_metres,
        (up, unit),
        tuple(part for part, is_assumed in assumptions.items() if is_assumed),
    )
    return transform_scan(scan, upright_turn(frame.up), frame.metres), frame


def _digests(scan: Scan) -> dict[str, str | None]:
    """Return the SHA-256 of the files that a reader opened; raise SceneError if one was replaced since."""
    digests = digests_of(map(Path, scan.files))
    for path, digest in digests.items():
        if scan.files[str(path)] != (None if digest is None else path.stat().st_ctime_ns):
            raise SceneError(
                f"{path} was replaced while its scan was read; wait until it is complete"
            )
    return {str(path): digest for path, digest in digests.items()}


def _size(path: Path) -> int:
    """Return the size in bytes of a regular file; raise SceneError if it cannot be a scan."""
    if "\0" in str(path):
        raise unreadable(path, "file names cannot contain a null byte", "check the name")
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise unreadable(path, "it is a folder", "pass the scan file in it")
    if not stat.S_ISREG(status.st_mode):
        raise unreadable(path, "it is not a regular file", "copy the scan to one")
    if not status.st_size:
        raise unreadable(path, "it is empty")
    return status.st_size


def _scene(scan: Scan, extent: Extent, path: Path, name: str, frame: FileFrame) -> Scene:
    low, high = (float(corner[2]) for corner in extent.bounds)
    num_faces = None if scan.faces is None else len(scan.faces)
    if scan.faces is not None:
        scan = shade_mesh(scan)
    colours, texture, normals = scan.colours, scan.texture, None
    if colours is None:
        unit_normals = cloud_normals(scan.points)
        colours = shaded_colours(scan.points, unit_normals, low, high)
        normals = np.rint(127 * unit_normals).astype(np.int8)
    return Scene(
        name,
        scan.points,
        colours,
        scan.faces,
        extent.floor,
        extent.ceiling,
        extent.bounds,
        path,
        scan.origin,
        texture=texture if texture is not None and texture.has_images else None,
        gaussians=scan.gaussians,
        normals=normals,
        notes=scan.notes,
        frame=frame,
        files=_digests(scan),
        cut_from=None if scan.faces is None or len(scan.faces) == num_faces else num_faces,
    )
