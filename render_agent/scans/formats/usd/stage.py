"""Read meshes, shapes and points with their materials from USD and USDZ files.

The files are untrusted and pxr is a C++ library, so it runs in a child process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.file_frame import Axis
from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.scans.formats.declared import Declared
from render_agent.scans.formats.reading_process import parser_errors, read_in_child
from render_agent.scans.formats.textured.image_files import Siblings
from render_agent.scans.formats.textured.parts import (
    MAX_CORNERS,
    MAX_VERTICES,
    Part,
    join_parts,
    place_copies,
)
from render_agent.scans.formats.triangulation import triangulate
from render_agent.scans.formats.usd.materials import PLAIN, Appearance, Materials, build_materials
from render_agent.scans.formats.usd.shapes import tessellate
from render_agent.scans.texture import Material
from render_agent.util.reasons import reason_of

# Types of prims that are read, or change neither shapes nor colours.
USED_TYPES = {"", "Xform", "Scope", "SkelRoot", "GeomSubset", "Material", "Shader", "NodeGraph"}
HARMLESS_TYPES = re.compile(r"Camera|Render\w+|Physics\w+|Backdrop")
USED_PRIMVARS = {"displayColor", "normals"}
COLOUR = "displayColor"

FAILED = re.compile(r"Could not (?:open asset|load (sublayer)) @(.+?)@(?: for (\w+))?")

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Part:
    """A mesh or points, in all of its places."""

    points: Floats  # (n, 3)
    faces: Integers | None  # (m, 3), or None for points
    primvars: dict[str, Floats]  # values of the vertices by name, (n, k) each
    appearances: tuple[Appearance | None, ...] = (None,)
    """Distinct appearances of the faces; None for faces without a supported material."""
    face_appearances: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    """Index of each face's appearance, (m,)."""

    def place(self, matrices: Floats) -> _Part:
        """Return the part in several places, given as matrices of row vectors, (k, 4, 4)."""
        count = len(matrices)
        points, faces = place_copies(self.points, self.faces, list(matrices.transpose(0, 2, 1)))
        if count == 1:
            return replace(self, points=points, faces=faces)
        return replace(
            self,
            points=points,
            faces=faces,
            primvars={name: np.tile(part, (count, 1)) for name, part in self.primvars.items()},
            face_appearances=np.tile(self.face_appearances, count),
        )


def read_usd(path: Path, size: int) -> Scan:
    """Read a USD, USDA, USDC or USDZ file of `size` bytes; its stage specifies up axis and unit."""
    return read_in_child(read_directly, path, size)


def read_directly(path: Path, size: int) -> Scan:
    """Read the file with pxr in this process."""
    from pxr import Tf, Usd, UsdGeom

    with parser_errors(path, "USD"):
        try:
            stage = Usd.Stage.Open(str(path))
            reader = _StageReader(stage, path)
            parts = list(reader.parts())
            if not parts:
                raise unreadable(path, reader.absence())
            surfaces = [part for part in parts if part.faces is not None]
            if surfaces and len(surfaces) < len(parts):
                reader.declared.add("Points")
            siblings = Siblings(path.parent)
            _note_layers(stage, siblings)
            scan = _textured_scan(surfaces or parts, stage, siblings, reader.declared)
            up: Axis = "z" if UsdGeom.GetStageUpAxis(stage) == "Z" else "y"
            metres = _metres(stage)
        except Tf.ErrorException as error:
            # The first reason is the cause; it follows the position in pxr's own source code.
            reason = str(error).partition(" : ")[2].strip().splitlines() or [str(error)]
            raise ValueError(reason[0].strip("'")) from error
    notes = (*scan.notes, *reader.declared.notes, *reader.skip_notes())
    return replace(scan, up=up, metres=metres, notes=notes, files=siblings.opened)


def _metres(stage: Any) -> float | None:
    """Return the stage's unit in metres, None if it is invalid; some writers store it in float32."""
    # UsdGeom.GetStageMetersPerUnit fails on float32.
    metres = float(f"{float(stage.GetMetadata('metersPerUnit')):.6g}")
    return metres if math.isfinite(metres) and metres > 0 else None


class _StageReader:
    """Reads the geometry of a stage at its earliest time, and accounts for everything else."""

    def __init__(self, stage: Any, path: Path) -> None:
        from pxr import Usd, UsdGeom

        self._stage, self._path = stage, path
        self._time = Usd.TimeCode.EarliestTime()
        self._transforms = UsdGeom.XformCache(self._time)
        self._size = {"vertices": 0, "corners": 0}
        self._skipped: list[str] = []
        self.declared = Declared(_unresolved_assets(stage))
        self._materials = Materials(self._time, self.declared)

    def parts(self) -> Iterator[_Part]:
        """Yield the visible meshes, shapes and points; raise SceneError if there are too many."""
        from pxr import Usd

        if self._stage.HasAuthoredTimeCodeRange():
            start, end = self._stage.GetStartTimeCode(), self._stage.GetEndTimeCode()
            if start < end:
                self.declared.add("animation")
        prims = Usd.PrimRange.Stage(self._stage, Usd.TraverseInstanceProxies())
        yield from self._parts_in(prims, None, np.eye(4)[None], depth=0)

    def skip_notes(self) -> list[str]:
        """Return a note about meshes that are damaged."""
        if not self._skipped:
            return []
        count = len(self._skipped)
        return [f"{count} damaged mesh{'es' * (count > 1)} skipped: {self._skipped[0]}"]

    def absence(self) -> str:
        reasons = [*self.skip_notes(), *self.declared.notes]
        return "; ".join(["it has no meshes and no points", *reasons])

    def _parts_in(
        self,
        prims: Any,
        root: Any,  # prim that `places` refer to; None for the stage
        places: Floats,  # (k, 4, 4), where the range is placed
        depth: int,
    ) -> Iterator[_Part]:
        """Yield the parts of a range of prims."""
        from pxr import Tf, Usd, UsdGeom

        iterator = iter(prims)
        for prim in iterator:
            if reason := self._hiding_reason(prim):
                if any(child.IsA(UsdGeom.Boundable) for child in Usd.PrimRange(prim)):
                    self.declared.add(f"{reason} {prim.GetName()}")
                iterator.PruneChildren()
                continue
            matrices = self._local(prim, root) @ places
            if prim.IsA(UsdGeom.PointInstancer):
                iterator.PruneChildren()
                yield from self._instances(prim, matrices, depth)
                continue
            try:
                part = self._part(prim, len(places))
            except (ValueError, IndexError, TypeError, Tf.ErrorException) as error:
                self._skipped.append(f"{prim.GetPath()}: {reason_of(error)}")
                continue
            if part is not None:
                yield part.place(matrices)

    def _local(self, prim: Any, root: Any) -> Floats:
        """Return the matrix from a prim to the root of its range, for row vectors, (4, 4)."""
        if root is None:
            return np.array(self._transforms.GetLocalToWorldTransform(prim), np.float64)
        if prim == root:
            return np.eye(4)
        return np.array(self._transforms.ComputeRelativeTransform(prim, root)[0], np.float64)

    def _hiding_reason(self, prim: Any) -> str | None:
        """Return why a prim is not shown: "invisible", "guide" or "proxy"; None if it is shown."""
        from pxr import UsdGeom

        if not prim.IsA(UsdGeom.Imageable):
            return None
        entry = UsdGeom.Imageable(prim)
        if entry.ComputeVisibility(self._time) == "invisible":
            return "invisible"
        purpose = entry.ComputePurpose()
        return purpose if purpose in ("guide", "proxy") else None

    def _instances(self, prim: Any, places: Floats, depth: int) -> Iterator[_Part]:
        """Yield the parts of the prototypes of an instancer, in all of their places."""
        from pxr import Usd, UsdGeom

        instancer = UsdGeom.PointInstancer(prim)
        targets = instancer.GetPrototypesRel().GetForwardedTargets()
        numbers = np.array(instancer.GetProtoIndicesAttr().Get(self._time) or [], np.int64)
        mask = instancer.ComputeMaskAtTime(self._time)
        if mask:
            numbers = numbers[np.array(mask, bool)]
        # Velocities are extrapolated from the time, which must be finite for them.
        samples = instancer.GetPositionsAttr().GetTimeSamples()
        time = Usd.TimeCode(samples[0]) if samples else self._time
        found = instancer.ComputeInstanceTransformsAtTime(time, time)
        if depth > 3 or len(found or ()) != len(numbers):
            self.declared.add(f"PointInstancer {prim.GetName()}")
            return
        predicate = Usd.TraverseInstanceProxies(
            Usd.PrimIsActive & Usd.PrimIsLoaded & ~Usd.PrimIsAbstract
        )
        transforms = np.array(found, np.float64).reshape(-1, 4, 4)
        for number, target in enumerate(targets):
            root = self._stage.GetPrimAtPath(target)
            own = transforms[numbers == number]
            if not root or not len(own):
                continue
            matrices = (own[:, None] @ places[None]).reshape(-1, 4, 4)
            yield from self._parts_in(Usd.PrimRange(root, predicate), root, matrices, depth + 1)

    def _part(self, prim: Any, count: int) -> _Part | None:
        """Return the part of a prim in its own frame, None if it has no geometry that is read."""
        from pxr import UsdGeom

        kind = str(prim.GetTypeName())
        if kind == "Points" or prim.IsA(UsdGeom.Points):
            local = UsdGeom.Points(prim).GetPointsAttr().Get(self._time)
            if not local:
                return None
            points = np.array(local, np.float64)
            self._count(len(points) * count, 0)
            colours, _ = self._primvar(prim, COLOUR, len(points))
            return _Part(points, None, {} if colours is None else {COLOUR: colours})
        shape = tessellate(prim, self._time)
        if shape is not None:
            return self._surface(prim, shape[0], shape[1].ravel(), np.full(len(shape[1]), 3), count)
        if not prim.IsA(UsdGeom.Mesh):
            if kind not in USED_TYPES and not HARMLESS_TYPES.fullmatch(kind):
                self.declared.add(kind)
            return None
        mesh = UsdGeom.Mesh(prim)
        local = mesh.GetPointsAttr().Get(self._time)
        indices = mesh.GetFaceVertexIndicesAttr().Get(self._time)
        if not local or not indices:
            return None
        scheme = mesh.GetSubdivisionSchemeAttr()
        if scheme.HasAuthoredValue() and scheme.Get(self._time) != "none":
            self.declared.add(f"subdivisionScheme {scheme.Get(self._time)}")
        counts = np.array(mesh.GetFaceVertexCountsAttr().Get(self._time) or [], np.int64)
        corners = np.array(indices)  # int32
        return self._surface(prim, np.array(local, np.float64), corners, counts, count)

    def _surface(
        self, prim: Any, points: Floats, indices: Integers, counts: Integers, places: int
    ) -> _Part | None:
        """Triangulate a mesh, and split vertices whose values differ between faces."""
        from pxr import UsdGeom

        if not len(counts) or counts.min() < 0 or counts.sum() != len(indices):
            raise ValueError("its face vertex counts do not match its face vertex indices")
        if not 0 <= indices.min() <= indices.max() < len(points):
            raise ValueError("a face refers to a vertex that does not exist")
        self._count(len(points) * places, len(indices) * places)
        appearances, numbers = self._materials.of_faces(prim, len(counts))
        corners, face_of = _triangles(points, indices, counts, self._holes(prim))
        if not len(corners):
            return None
        if UsdGeom.Gprim(prim).GetOrientationAttr().Get(self._time) == "leftHanded":
            corners = corners[:, [0, 2, 1]]
        names = {COLOUR}.union(*(each.primvars for each in appearances if each))
        values = {
            name: self._primvar(prim, name, len(points), indices, counts) for name in sorted(names)
        }
        self._account(prim, {name for name, (found, _) in values.items() if found is not None})
        is_split = any(by_corner for _, by_corner in values.values())
        primvars = {
            name: found[indices] if is_split and not by_corner else found
            for name, (found, by_corner) in values.items()
            if found is not None
        }
        faces = corners if is_split else indices[corners]
        at = points[indices] if is_split else points
        return _Part(at, faces, primvars, appearances, numbers[face_of])

    def _holes(self, prim: Any) -> Integers:
        from pxr import UsdGeom

        holes = UsdGeom.Mesh(prim).GetHoleIndicesAttr() if prim.IsA(UsdGeom.Mesh) else None
        return np.array((holes.Get(self._time) if holes else None) or [], np.int64)

    def _account(self, prim: Any, used: set[str]) -> None:
        from pxr import UsdGeom

        for primvar in UsdGeom.PrimvarsAPI(prim).GetPrimvarsWithAuthoredValues():
            name = primvar.GetPrimvarName()
            if name not in USED_PRIMVARS | used:
                self.declared.add(f"primvars:{name}")

    def _count(self, vertices: int, corners: int) -> None:
        """Count vertices and corners; raise SceneError if there are too many."""
        self._size["vertices"] += vertices
        self._size["corners"] += corners
        if self._size["vertices"] > MAX_VERTICES or self._size["corners"] > MAX_CORNERS:
            raise unreadable(
                self._path, "its meshes are too large", "reduce them, or the number of instances"
            )

    def _primvar(
        self,
        prim: Any,
        name: str,
        count: int,
        indices: Integers | None = None,
        counts: Integers | None = None,
    ) -> tuple[Floats | None, bool]:
        """Return a primvar's values per vertex or per face corner, and whether per corner; None if it has none."""
        from pxr import UsdGeom

        primvar = UsdGeom.PrimvarsAPI(prim).FindPrimvarWithInheritance(name)
        flat = primvar.ComputeFlattened(self._time) if primvar and primvar.HasValue() else None
        if flat is None:
            return None, False
        values = np.array(flat, np.float64)
        kind = str(primvar.GetInterpolation())
        if values.ndim != 2 or not len(values):
            return None, False
        if name == COLOUR:
            self.declared.add_nan(values)
        if len(values) == 1:
            return values.repeat(count, axis=0), False
        if kind in ("vertex", "varying") and len(values) == count:
            return values, False
        if indices is not None and kind == "faceVarying" and len(values) == len(indices):
            return values, True
        if counts is not None and kind == "uniform" and len(values) == len(counts):
            return np.repeat(values, counts, axis=0), True
        self.declared.add(f"primvars:{name} with {len(values)} values")
        return (values[:1].repeat(count, axis=0) if kind == "constant" else None), False


def _note_layers(stage: Any, siblings: Siblings) -> None:
    """Note the other layers of the stage, and those that it could not open."""
    root = stage.GetRootLayer()
    for layer in stage.GetUsedLayers():
        if layer.realPath and layer != root and not layer.realPath.startswith(f"{root.realPath}["):
            siblings.opened[layer.realPath] = Path(layer.realPath).stat().st_ctime_ns
    for error in stage.GetCompositionErrors():
        if failed := FAILED.search(str(error)):
            siblings.note_missing(siblings.folder / failed[2])


def _unresolved_assets(stage: Any) -> Iterator[str]:
    """Yield the files that the stage refers to and that are missing, and other failed references."""
    for error in stage.GetCompositionErrors():
        text = str(error)
        failed = FAILED.search(text)
        if failed:
            # Those that exist have a format without a plug-in, such as MaterialX.
            state = "unsupported" if Path(failed[2]).exists() else "missing"
            yield f"{state} {failed[1] or failed[3] or 'layer'} {Path(failed[2]).name}"
        else:
            yield f"{error.rootSite.path} ({reason_of(text)})"


def _triangles(
    points: Floats, indices: Integers, counts: Integers, holes: Integers
) -> tuple[Integers, Integers]:
    """Triangulate polygons; return the corner numbers of the triangles, (m, 3), and their polygons, (m,)."""
    if not len(holes) and (counts == 3).all():
        return np.arange(len(indices), dtype=indices.dtype).reshape(-1, 3), np.arange(len(counts))
    first = np.cumsum(counts) - counts
    is_shown = np.ones(len(counts), bool)
    is_shown[holes[(holes >= 0) & (holes < len(counts))]] = False
    triangles, polygons = [], []
    sizes = np.unique(counts[is_shown & (counts > 2)]).tolist()
    for size in sizes:
        rows = np.flatnonzero(is_shown & (counts == size))
        corners = first[rows, None] + np.arange(size)
        _, local, at = triangulate(indices[corners], points)
        triangles.append(corners[at[:, None], local])
        polygons.append(rows[at])
    if not triangles:
        return np.empty((0, 3), np.int64), np.empty(0, np.int64)
    faces, face_of = np.concatenate(triangles), np.concatenate(polygons)
    if len(sizes) == 1:
        return faces, face_of
    order = np.argsort(face_of, kind="stable")
    return faces[order], face_of[order]


def _used_points(faces: Integers, count: int) -> tuple[Integers, Integers]:
    """Return the vertices that faces refer to, and the faces in terms of these, as `np.unique` does by sorting."""
    is_used = np.zeros(count, bool)
    is_used[faces] = True
    places = np.cumsum(is_used, dtype=faces.dtype) - 1
    return np.flatnonzero(is_used), places[faces]


def _textured_scan(
    parts: Sequence[_Part], stage: Any, siblings: Siblings, declared: Declared
) -> Scan:
    """Join the parts to one scan; raise ScanRejectedError if their textures are too large."""
    shown: Iterable[Appearance] = (
        each for part in parts for each in part.appearances if each is not None
    )
    materials, notes = build_materials(shown, stage, siblings, declared)
    textured_parts = []
    for part in parts:
        if part.faces is None:
            textured_parts.append(Part(part.points, None, colours=part.primvars.get(COLOUR)))
            continue
        for number, each in enumerate(part.appearances):
            appearance = None if each == PLAIN else each
            is_shown = part.face_appearances == number
            at, faces = _used_points(
                part.faces if is_shown.all() else part.faces[is_shown], len(part.points)
            )
            if not len(at):
                continue
            colour_name = COLOUR if appearance is None else appearance.diffuse.primvar
            colours = part.primvars.get(colour_name or "")
            colours = None if colours is None else colours[at, :3]
            material: Material | None = None
            uv = None
            if appearance is not None and colours is None:
                material, image = materials[appearance]
                coordinates = None if image is None else part.primvars.get(image.primvar)
                if coordinates is not None and image is not None:
                    matrix = np.array(image.transform).reshape(2, 3)
                    uv = coordinates[at, :2] @ matrix[:, :2].T + matrix[:, 2]
                    uv = uv * [1, -1] + [0, 1]
            textured_parts.append(Part(part.points[at], faces, material, uv, colours))
    return join_parts(textured_parts, notes)
