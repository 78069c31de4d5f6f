"""Tessellate USD's implicit shapes: cubes, spheres, cylinders, cones, capsules and planes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SECTIONS = 32  # around the axis of a round shape
SHAPES = ("Cube", "Sphere", "Cylinder", "Cone", "Capsule", "Plane")


def tessellate(prim: Any, time: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]] | None:
    """Return the vertices, (n, 3), and faces, (m, 3), of a shape; None if the prim is not one of SHAPES."""
    from trimesh import creation

    kind = str(prim.GetTypeName())
    if kind not in SHAPES:
        return None

    def value(name: str) -> float:
        return float(prim.GetAttribute(name).Get(time))

    if kind == "Cube":
        mesh = creation.box(np.full(3, value("size")))
    elif kind == "Sphere":
        mesh = creation.uv_sphere(value("radius"), count=[SECTIONS // 2, SECTIONS])
    elif kind == "Cylinder":
        mesh = creation.cylinder(value("radius"), value("height"), sections=SECTIONS)
    elif kind == "Cone":
        mesh = creation.cone(value("radius"), value("height"), sections=SECTIONS)
        mesh.apply_translation([0, 0, -value("height") / 2])
    elif kind == "Capsule":
        mesh = creation.capsule(value("height"), value("radius"), count=[SECTIONS, SECTIONS])
    else:
        return _plane(value("width"), value("length"), _axis(prim, time))
    points = np.asarray(mesh.vertices, np.float64)
    if kind not in ("Cube", "Sphere"):  # whose axis is z here
        points = np.roll(points, {"X": 1, "Y": 2}.get(_axis(prim, time), 0), axis=1)
    return points, np.asarray(mesh.faces, np.int64)


def _axis(prim: Any, time: Any) -> str:
    return str(prim.GetAttribute("axis").Get(time))


def _plane(width: float, length: float, axis: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a rectangle at right angles to an axis; its width is along x, or along z if the axis is x."""
    x, y = width / 2, length / 2
    flat = np.array([[-x, -y], [x, -y], [x, y], [-x, y]])
    columns = {"X": (None, 1, 0), "Y": (0, None, 1), "Z": (0, 1, None)}[axis]
    points = np.zeros((4, 3))
    for to, source in enumerate(columns):
        if source is not None:
            points[:, to] = flat[:, source]
    faces = np.array([[0, 1, 2], [0, 2, 3]])
    return points, faces if axis == "Z" else faces[:, ::-1]
