"""Read meshes with materials and colours, and points, from USD and USDZ files. The only module that imports pxr.

The files are untrusted and pxr is a C++ library, so it runs in a child process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.options import Axis
from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.reading_process import parser_errors, read_in_child
from render_agent.scans.formats.textured.image_files import EncodedImage, ImageError, decode_images
from render_agent.scans.formats.textured.parts import MAX_CORNERS, MAX_VERTICES, Part, join_parts
from render_agent.scans.texture import Material, Wrap
from render_agent.util.reasons import short_repr

GREY = (0.18, 0.18, 0.18)  # linear light; UsdPreviewSurface's default diffuseColor

WRAPS: dict[str, Wrap] = {
    "repeat": "repeat",
    "clamp": "clamp",
    "mirror": "mirror",
    "black": "clamp",
}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class _Appearance:
    """A material: its colour in linear light or its texture asset, and the primvar with its coordinates."""

    colour: tuple[float, float, float] = GREY
    asset: str | None = None
    wrap: tuple[Wrap, Wrap] = ("repeat", "repeat")
    primvar: str = "st"


@dataclass(frozen=True, eq=False)
class _Part:
    """A mesh or points.

    Attributes:
        points: (n, 3).
        faces: (m, 3), or None for points.
        colours: (n, 3) linear light, or None.
        uv: (n, 2) texture coordinates, or None.
        appearances: Distinct appearances of the faces.
        face_appearances: Index of each face's appearance, (m,).
    """

    points: Floats
    faces: NDArray[np.int64] | None
    colours: Floats | None
    uv: Floats | None = None
    appearances: tuple[_Appearance, ...] = ()
    face_appearances: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


def read_usd(path: Path, size: int) -> Scan:
    """Read a USD, USDA, USDC or USDZ file of `size` bytes; its stage specifies up axis and unit."""
    return read_in_child(read_directly, path, size)


def read_directly(path: Path, size: int) -> Scan:
    """Read the file with pxr in this process."""
    from pxr import Tf, Usd, UsdGeom

    with parser_errors(path, "USD"):
        try:
            stage = Usd.Stage.Open(str(path))
            parts = list(_parts(stage, path))
            if not parts:
                raise unreadable(path, "it has no meshes and no points")
            solid = [part for part in parts if part.faces is not None]
            scan = _textured_scan(solid or parts, stage, path)
        except Tf.ErrorException as error:
            # The reason follows the position in pxr's own source code.
            raise ValueError(str(error).rpartition(" : ")[2].strip("'")) from error
    up: Axis = "z" if UsdGeom.GetStageUpAxis(stage) == "Z" else "y"
    metres = float(UsdGeom.GetStageMetersPerUnit(stage))
    return replace(scan, up=up, metres=metres, notes=(*scan.notes, *_unsupported_note(stage)))


def _unsupported_note(stage: Any) -> Iterator[str]:
    """Yield a note if the file has shapes of unsupported types."""
    from pxr import UsdGeom

    kinds = {
        str(prim.GetTypeName())
        for prim in stage.Traverse()
        if prim.IsA(UsdGeom.Gprim) or prim.IsA(UsdGeom.PointInstancer)
    }
    if others := sorted(kinds - {"Mesh", "Points"}):
        yield f"shapes of type {', '.join(others)} were skipped: convert them to meshes"


def _parts(stage: Any, path: Path) -> Iterator[_Part]:
    """Yield the visible meshes and points in world space; raise SceneError if there are too many."""
    from pxr import Usd, UsdGeom

    time = Usd.TimeCode.EarliestTime()
    transforms = UsdGeom.XformCache(time)
    vertices = corners = 0
    prims = iter(Usd.PrimRange.Stage(stage, Usd.TraverseInstanceProxies()))
    for prim in prims:
        if prim.IsA(UsdGeom.PointInstancer) or (
            prim.IsA(UsdGeom.Imageable)
            and (
                UsdGeom.Imageable(prim).ComputeVisibility(time) == "invisible"
                or UsdGeom.Imageable(prim).ComputePurpose() in ("guide", "proxy")
            )
        ):
            prims.PruneChildren()
            continue
        if not (prim.IsA(UsdGeom.Mesh) or prim.IsA(UsdGeom.Points)):
            continue
        local = UsdGeom.PointBased(prim).GetPointsAttr().Get(time)
        indices = (
            UsdGeom.Mesh(prim).GetFaceVertexIndicesAttr().Get(time)
            if prim.IsA(UsdGeom.Mesh)
            else None
        )
        if not local or (prim.IsA(UsdGeom.Mesh) and not indices):
            continue
        vertices += len(local)
        corners += len(indices or ())
        if vertices > MAX_VERTICES or corners > MAX_CORNERS:
            raise unreadable(
                path, "its meshes are too large", "reduce them, or the number of instances"
            )
        # USD uses row vectors.
        matrix = np.array(transforms.GetLocalToWorldTransform(prim), np.float64)
        points = np.array(local, np.float64) @ matrix[:3, :3] + matrix[3, :3]
        if indices is None:
            yield _Part(points, None, _primvar(prim, "displayColor", time, len(points))[0])
        else:
            flipped = np.linalg.det(matrix[:3, :3]) < 0
            yield _mesh(prim, points, np.array(indices, np.int64), time, flipped=bool(flipped))


def _mesh(
    prim: Any, points: Floats, indices: NDArray[np.int64], time: Any, *, flipped: bool
) -> _Part:
    """Read a mesh: triangulate polygons as fans, and split vertices whose values differ between faces."""
    from pxr import UsdGeom

    mesh = UsdGeom.Mesh(prim)
    counts = np.array(mesh.GetFaceVertexCountsAttr().Get(time), np.int64)
    if counts.min() < 0 or counts.sum() != len(indices):
        raise ValueError("its face vertex counts do not match its face vertex indices")
    if not 0 <= indices.min() <= indices.max() < len(points):
        raise ValueError("a face refers to a vertex that does not exist")
    holes = mesh.GetHoleIndicesAttr().Get(time)
    fans = np.maximum(counts - 2, 0)
    if holes:
        fans[np.array(holes, np.int64)] = 0
    face_of = np.repeat(np.arange(len(counts)), fans)
    first = np.repeat(np.cumsum(counts) - counts, fans)
    step = np.arange(len(face_of)) - np.repeat(np.cumsum(fans) - fans, fans)
    faces = np.column_stack([first, first + step + 1, first + step + 2])
    if (mesh.GetOrientationAttr().Get(time) == "leftHanded") != flipped:
        faces = faces[:, [0, 2, 1]]
    appearances, face_appearances = _appearances(prim, len(counts))
    names = {appearance.primvar for appearance in appearances if appearance.asset}
    colours, by_corner = _primvar(prim, "displayColor", time, len(points), indices, counts)
    uv: Floats | None = None
    if names:
        uv, uv_by_corner = _primvar(prim, min(names), time, len(points), indices, counts)
        if uv is not None and colours is None:
            by_corner = uv_by_corner
        elif uv is not None and uv_by_corner != by_corner:
            uv = uv if uv_by_corner else uv[indices]
            colours = colours if by_corner or colours is None else colours[indices]
            by_corner = True
    if by_corner:
        points = points[indices]
    else:
        faces = indices[faces]
    return _Part(points, faces, colours, uv, appearances, face_appearances[face_of])


_PLAIN = _Appearance()


def _primvar(
    prim: Any,
    name: str,
    time: Any,
    count: int,
    indices: NDArray[np.int64] | None = None,
    counts: NDArray[np.int64] | None = None,
) -> tuple[Floats | None, bool]:
    """Return a primvar's values per vertex or per face corner, and whether per corner; None if it has none."""
    from pxr import UsdGeom

    primvar = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(name)
    flat = primvar.ComputeFlattened(time) if primvar and primvar.HasValue() else None
    if flat is None:
        return None, False
    values = np.array(flat, np.float64)
    kind = str(primvar.GetInterpolation())
    if values.ndim != 2 or not len(values):
        return None, False
    if kind == "constant" or len(values) == 1:
        return values[:1].repeat(count, axis=0), False
    if kind in ("vertex", "varying") and len(values) == count:
        return values, False
    if indices is not None and kind == "faceVarying" and len(values) == len(indices):
        return values, True
    if counts is not None and kind == "uniform" and len(values) == len(counts):
        return np.repeat(values, counts, axis=0), True
    return None, False


def _appearances(prim: Any, faces: int) -> tuple[tuple[_Appearance, ...], NDArray[np.int64]]:
    """Return the distinct appearances of a mesh, and the index of each face's appearance."""
    from pxr import UsdShade

    binding = UsdShade.MaterialBindingAPI(prim)
    appearances = [_appearance(binding.ComputeBoundMaterial()[0])]
    face_appearances = np.zeros(faces, np.int64)
    for subset in binding.GetMaterialBindSubsets():
        material = UsdShade.MaterialBindingAPI(subset.GetPrim()).ComputeBoundMaterial()[0]
        at = np.array(subset.GetIndicesAttr().Get() or [], np.int64)
        face_appearances[at[(at >= 0) & (at < faces)]] = len(appearances)
        appearances.append(_appearance(material))
    return tuple(appearances), face_appearances


def _appearance(material: Any) -> _Appearance:
    """Return a material's appearance: the diffuse colour or texture of its UsdPreviewSurface."""
    surface = material.ComputeSurfaceSource()[0] if material else None
    diffuse = surface.GetInput("diffuseColor") if surface else None
    if not diffuse:
        return _PLAIN
    connected = diffuse.GetConnectedSources()[0]
    if not connected:
        value = diffuse.Get()
        return (
            _PLAIN
            if value is None
            else _Appearance((float(value[0]), float(value[1]), float(value[2])))
        )
    texture = _shader(connected[0].source)
    file = texture.GetInput("file")
    asset = file.Get() if file else None
    if asset is None:
        return _PLAIN
    wraps = [texture.GetInput(name) for name in ("wrapS", "wrapT")]
    s, t = (WRAPS.get(str(wrap.Get()) if wrap else "repeat", "repeat") for wrap in wraps)
    name = "st"
    st = texture.GetInput("st")
    while st and (sources := st.GetConnectedSources()[0]):
        reader = _shader(sources[0].source)
        varname = reader.GetInput("varname")
        if varname and varname.Get():
            name = str(varname.Get())
            break
        st = reader.GetInput("in")
    return _Appearance(GREY, str(asset.resolvedPath or asset.path), (s, t), name)


def _shader(source: Any) -> Any:
    from pxr import UsdShade

    return UsdShade.Shader(source.GetPrim())


def _open_image(stage: Any, path: Path, asset: str) -> EncodedImage:
    """Open a texture in the stage's package or folder; raise ImageError if it is missing or elsewhere."""
    from pxr import Ar

    inside = asset.startswith(f"{stage.GetRootLayer().realPath}[")
    if not inside and not Path(asset).resolve().is_relative_to(path.resolve().parent):
        raise ImageError(f"{short_repr(asset)} is outside the scan's folder")
    opened = Ar.GetResolver().OpenAsset(Ar.ResolvedPath(asset))
    if not opened:
        raise ImageError(f"{short_repr(asset)} does not exist")
    return EncodedImage.of(bytes(opened.GetBuffer()), asset)


def _textured_scan(parts: Sequence[_Part], stage: Any, path: Path) -> Scan:
    """Join the parts to one scan; raise ScanRejectedError if their textures are too large."""
    assets = dict.fromkeys(
        appearance.asset for part in parts for appearance in part.appearances if appearance.asset
    )
    sources = {asset: partial(_open_image, stage, path, asset) for asset in assets}
    pictures, notes = decode_images(sources, in_child=True)
    materials = {
        appearance: Material(pictures[appearance.asset], wrap=appearance.wrap)
        if appearance.asset in pictures
        else Material(None, (*appearance.colour, 1.0), captured=False)
        for part in parts
        for appearance in part.appearances
    }
    textured_parts = []
    for part in parts:
        if part.faces is None:
            textured_parts.append(Part(part.points, None, colours=part.colours))
            continue
        for number, appearance in enumerate(part.appearances):
            at, corners = np.unique(
                part.faces[part.face_appearances == number], return_inverse=True
            )
            if not len(at):
                continue
            material: Material | None = materials[appearance]
            colours = None if part.colours is None else part.colours[at]
            if materials[appearance].picture is not None:
                colours = None
            elif colours is not None or appearance == _PLAIN:
                material = None
            uv = None if part.uv is None else part.uv[at, :2] * [1, -1] + [0, 1]
            textured_parts.append(
                Part(part.points[at], corners.reshape(-1, 3), material, uv, colours)
            )
    return join_parts(textured_parts, notes)
