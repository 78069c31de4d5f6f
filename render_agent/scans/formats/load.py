"""A scan's file read as a scene."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

from render_agent.scans.extent import Extent, extent
from render_agent.scans.file_frame import AUTO, METRES, AnyUnit, Axis, FileFrame, Up
from render_agent.scans.formats.axis_alignment import missing_note, read_alignment
from render_agent.scans.formats.cleaning import Scan, cleaned, transformed, unreadable, upright_turn
from render_agent.scans.formats.point_cloud import shaded_cloud, thinned
from render_agent.scans.formats.readers import format_of
from render_agent.scans.formats.shading import shaded
from render_agent.scans.formats.unit_check import (
    refuse_impossible,
    refuse_too_wide,
    side_note,
    unit_note,
)
from render_agent.scans.scene import Scene
from render_agent.scans.solid import solid

CAMERA_UP: tuple[Axis, str] = "-y", "as photographs have it"
"""What points up in splats trained on photographs: their axes are those of the first camera, y down."""


def load_scene(
    path: Path,
    id: str | None = None,
    up: Up = AUTO,
    unit: AnyUnit = AUTO,
) -> Scene:
    """Return the scene of a scan's file, in any format of `registry.FORMATS`.

    id: the scene's name; without it, the file's. up: the axis of the file that points up; unit: the unit
    of its coordinates; `auto` is what the file says, else what its format has, else z and metres.
    Scans without colours are shaded, clouds of too many points thinned, scans far from zero moved (see
    `Scene.origin`), ScanNet's meshes aligned as the text file beside them says. SceneError where the
    file holds no scene, or one that is no room unless its unit is told; nothing is allocated on its
    header's word alone.
    """
    path = Path(path)
    try:
        scan, frame, notes = _read(path, up, unit)
        alignment = read_alignment(path)
        if alignment is not None:
            scan = transformed(scan, alignment[:3, :3], shift=alignment[:3, 3])
        scan = cleaned(scan, path)
        declared, solid_points = unit != AUTO, scan.points
        if scan.gaussians is not None:
            surface = solid(scan.points, scan.gaussians)
            scan = replace(scan, gaussians=replace(scan.gaussians, solid=surface))
            solid_points = scan.points[surface]
        refuse_too_wide(solid_points, path, frame.metres, declared=declared)
        if scan.faces is None and scan.gaussians is None:
            scan = thinned(scan)
        measured = extent(scan)
        refuse_impossible(measured, path, frame.metres, declared=declared)
        if scan.metres is None and not declared:
            notes += [unit_note(measured)]
        if scan.up is None and up == AUTO:
            notes += [side_note(measured)]
        notes += [missing_note(path)]
        scan = replace(scan, notes=(*scan.notes, *filter(None, notes)))
        return _scene(scan, measured, path, path.stem if id is None else id, frame)
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise unreadable(path, why, "check its name and its permissions") from None
    except MemoryError:
        raise unreadable(path, "it needs more memory than there is", "thin it out") from None


def read_scan(path: Path, up: Up = AUTO, unit: AnyUnit = AUTO) -> Scan:
    """Return what the file holds, z up, metres, unchecked. SceneError where it is not whole."""
    return _read(path, up, unit)[0]


def _read(path: Path, up: Up, unit: AnyUnit) -> tuple[Scan, FileFrame, list[str | None]]:
    """Return the scan, how it lay in its file, and a sentence where that had to be assumed.

    The scan's `up` and `metres` are left as they are known: told by the file, or by its format.
    """
    size = _size(path)
    form = format_of(path, size)
    scan = form.read(path, size)
    metres = scan.metres or (METRES[form.unit] if form.unit else None)
    own, notes = scan.up or form.up, scan.notes
    if scan.gaussians is not None and scan.up is None:
        own, why = (form.up, "as SPZ lays down") if form.up else CAMERA_UP
        if up == AUTO:
            notes += (
                f"its axis {own} was taken to point up, {why}, as a splat does not say; --up says another",
            )
    scan = replace(scan, up=own, metres=metres, notes=notes)
    frame = FileFrame(
        (scan.up or "z") if up == AUTO else up,
        (scan.metres or 1.0) if unit == AUTO else METRES[unit],
        (up, unit),
    )
    assumed = [
        words
        for words, known in (
            ("its upright axis (z)", scan.up or up != AUTO),
            ("its unit (metres)", scan.metres or unit != AUTO),
        )
        if not known
    ]
    note = (
        f"{' and '.join(assumed)} had to be assumed, as the file does not say" if assumed else None
    )
    return transformed(scan, upright_turn(frame.up), frame.metres), frame, [note]


def _size(path: Path) -> int:
    """Return the length in bytes of a file that can be read."""
    if "\0" in str(path):
        raise unreadable(path, "a file name has no zero byte in it", "check its name")
    status = path.stat()
    if stat.S_ISDIR(status.st_mode):
        raise unreadable(path, "it is a directory", "name the file of the scan in it")
    if not stat.S_ISREG(status.st_mode):
        raise unreadable(path, "it is no ordinary file", "copy the scan into one")
    if not status.st_size:
        raise unreadable(path, "it is empty")
    return status.st_size


def _scene(scan: Scan, measured: Extent, path: Path, name: str, frame: FileFrame) -> Scene:
    low, high = (float(corner[2]) for corner in measured.bounds)
    if scan.faces is not None:
        scan = shaded(scan)
    colours, texture = scan.colours, scan.texture
    if colours is None:
        colours = shaded_cloud(scan.points, low, high)
    return Scene(
        name,
        scan.points,
        colours,
        scan.faces,
        measured.floor,
        measured.ceiling,
        measured.bounds,
        path,
        scan.origin,
        texture=texture if texture is not None and texture.has_pictures else None,
        gaussians=scan.gaussians,
        notes=scan.notes,
        frame=frame,
    )
