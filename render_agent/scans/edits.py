"""Edits a scene and its boxes: removes, copies or moves an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.boxes import Array, OrientedBox
from render_agent.scans.instances import read_instances
from render_agent.scans.scene import Scene
from render_agent.util.safe_parse import Count, Finite

Boxes = Mapping[str, Sequence[OrientedBox]]
"""Boxes by label, in metres, in the frame of the scan file."""

ObjectKey = tuple[str, int]
"""An object: its label and its index among the boxes with that label."""

# Distance by which an object's surface may extend beyond its box. The second is tried for objects not found with the
# first, because scans bend surfaces.
MARGINS_METRES = (0.01, 0.03)

# Larger gaps between a box and the surface inside it mean that the object is incomplete.
TIGHT_METRES = 0.08
# Another object's surface this deep inside a box means that the object cannot be isolated.
INSIDE_METRES = 0.03
PATCH_METRES = 0.06  # vertex spacing of the floor that fills the hole left by an object
LEVEL_METRES = 0.06  # vertices within this height of the floor belong to the floor
ROUNDING_SQUARE_METRES = 1e-6  # tolerance of the point-in-triangle test, a cross product


class Edit(Struct, frozen=True):
    """One edit of an object. "copy" and "transform" add `shift` to its points, in metres, in the frame of the scan file.

    Runs of earlier versions contain "recolour", `degrees`, `factor`, and edits of the whole scene (without a label), which
    are read but not carried out.
    """

    verb: Literal["remove", "copy", "transform", "recolour"]
    label: str | None = None
    index: Count = 0
    degrees: Finite = 0.0
    factor: Finite = 1.0
    shift: tuple[Finite, Finite, Finite] = (0.0, 0.0, 0.0)

    @property
    def is_supported(self) -> bool:
        """True if this version can carry it out."""
        is_shift = (self.degrees, self.factor) == (0.0, 1.0)
        return self.label is not None and self.verb != "recolour" and is_shift

    def moved_box(self, box: OrientedBox) -> OrientedBox:
        return replace(box, centre=box.centre + self.shift)


def edit_boxes(boxes: Boxes, edits: Iterable[Edit]) -> dict[str, list[OrientedBox]]:
    """Return the boxes of a scene after edits. A copy is appended to the boxes of its label."""
    result = {label: list(boxes_of_label) for label, boxes_of_label in boxes.items()}
    for edit in edits:
        if edit.label is not None:
            same_label = result[edit.label]
            if edit.verb == "remove":
                del same_label[edit.index]
            elif edit.verb == "copy":
                same_label.append(edit.moved_box(same_label[edit.index]))
            elif edit.verb == "transform":
                same_label[edit.index] = edit.moved_box(same_label[edit.index])
    return result


def edit_scene(
    scene: Scene,
    boxes: Boxes,  # its boxes before the edits, in the frame of its file
    edits: Sequence[Edit],  # applied in order
) -> Scene:
    """Return a scene after edits of objects, the mesh parts inside their boxes; holes in the floor are filled."""
    parts = ObjectParts(scene, boxes)
    for edit in edits:
        scene = _edit_one(scene, parts, edit)
    return scene


class ObjectParts:
    """The objects of a mesh with vertex colours, found by their boxes.

    Mesh parts are the objects of the scan's instance labels if there are any, otherwise connected components. Each part
    belongs to the smallest box that contains it. Only objects whose parts fill their box are included, because the
    faces of other objects are ambiguous.
    """

    def __init__(self, scene: Scene, boxes: Boxes) -> None:
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        if scene.faces is None or scene.texture is not None:
            raise SceneError("its objects cannot be edited: it is not a mesh with vertex colours")
        number = len(scene.points)
        labels = read_instances(scene.source, number)
        if labels is None:
            edges = scene.faces[:, [0, 1, 1, 2]].reshape(-1, 2).T
            ones = np.ones(edges.shape[1], bool)
            graph = coo_matrix((ones, tuple(edges)), shape=(number, number))
            labels = connected_components(graph, directed=False)[1]
        self._part_of = labels - labels.min()
        self._labelled = labels.min() < 0
        self.things: dict[ObjectKey, NDArray[np.intp]] = {}
        points = scene.points.astype(np.float64) + scene.origin
        parts_by_key = {
            (name, n): box
            for name, boxes_of_label in boxes.items()
            for n, box in enumerate(boxes_of_label)
        }
        for margin in MARGINS_METRES:
            remaining = {key: box for key, box in parts_by_key.items() if key not in self.things}
            self._find(points, remaining, margin)

    def _find(self, points: Array, boxes: Mapping[ObjectKey, OrientedBox], margin: float) -> None:
        sizes = np.bincount(self._part_of)
        free = np.ones(len(sizes), bool)
        free[0] = not self._labelled  # with labels, part 0 is unlabelled surface
        for vertices in self.things.values():
            free[self._part_of[vertices]] = False
        for key in sorted(boxes, key=lambda key: float(boxes[key].size.prod())):
            box = boxes[key]
            low, high = box.grown(margin).bounds
            near = np.flatnonzero(((points >= low) & (points <= high)).all(1))
            inside = near[(np.abs(box.local(points[near])) <= box.size / 2 + margin).all(1)]
            is_complete = free & (np.bincount(self._part_of[inside], minlength=len(sizes)) == sizes)
            vertices = np.flatnonzero(is_complete[self._part_of])
            deep = near[(np.abs(box.local(points[near])) < box.size / 2 - INSIDE_METRES).all(1)]
            foreign = free[self._part_of[deep]] & ~is_complete[self._part_of[deep]]
            if len(vertices) and _is_filled(box, points[vertices]) and not foreign.any():
                self.things[key] = vertices
                free &= ~is_complete


def _is_filled(box: OrientedBox, points: Array) -> bool:
    local = box.local(points)
    return bool((box.size / 2 - np.minimum(-local.min(0), local.max(0)) <= TIGHT_METRES).all())


def _edit_one(scene: Scene, parts: ObjectParts, edit: Edit) -> Scene:
    """Return the scene with one object edited; vertices keep their indices."""
    if not edit.is_supported:
        raise SceneError(
            "it was changed in a way that only earlier versions of render_agent support"
        )
    key = str(edit.label), edit.index
    if key not in parts.things or scene.faces is None:
        raise SceneError(
            f"its {edit.label} {edit.index + 1} cannot be separated from what it touches"
        )
    vertices = parts.things[key]
    points, colours, faces = scene.points, scene.colours, scene.faces
    is_own = np.zeros(len(points), bool)
    is_own[vertices] = True
    own_faces = is_own[faces].all(1)
    other_faces = ~is_own[faces].any(1)  # faces that join the object to another belong to neither
    torn_points = points[np.unique(faces[~(own_faces | other_faces)])]
    objects = np.concatenate([*parts.things.values()])
    if edit.verb == "remove":
        return _add_floor(
            replace(scene, faces=faces[other_faces]), points[vertices], torn_points, objects
        )
    origin = np.array(scene.origin)
    new_points = points[vertices].astype(np.float64) + origin + edit.shift - origin
    if edit.verb == "copy":
        new_index = np.zeros(len(points), np.int32)
        new_index[vertices] = np.arange(len(points), len(points) + len(vertices))
        return replace(
            scene,
            points=np.concatenate([points, new_points.astype(np.float32)]),
            colours=np.concatenate([colours, colours[vertices]]),
            faces=np.concatenate([faces, new_index[faces[own_faces]]]),
        )
    all_points = points.copy()
    all_points[vertices] = new_points
    result = replace(scene, points=all_points, faces=faces[own_faces | other_faces])
    return _add_floor(result, points[vertices], torn_points, objects)


def _add_floor(
    scene: Scene,
    footprint: NDArray[np.float32],  # former vertices of the object, (n, 3) in metres
    # vertices of the removed faces that joined the object to others, (m, 3) in metres
    torn_points: NDArray[np.float32],
    objects: NDArray[np.intp],
) -> Scene:
    """Fill in the unscanned floor under a removed object, with the height and colour of the nearest floor."""
    from scipy.spatial import cKDTree

    if scene.faces is None or footprint[:, 2].min() > scene.floor + LEVEL_METRES:
        return scene
    level = np.abs(scene.points[:, 2] - scene.floor) < LEVEL_METRES
    floor_faces = scene.faces[level[scene.faces].all(1)]
    if not len(floor_faces):
        return scene
    near_floor = np.abs(torn_points[:, 2] - scene.floor) < LEVEL_METRES
    outline = np.concatenate([footprint, torn_points[near_floor]])[:, :2]
    low, high = outline.min(0), outline.max(0)
    columns, rows = (np.linspace(a, b, int((b - a) / PATCH_METRES) + 2) for a, b in zip(low, high, strict=True))  # fmt: skip
    grid = np.stack(np.meshgrid(columns, rows, indexing="ij"), -1).reshape(-1, 2)
    triangles = scene.points[floor_faces][:, :, :2].astype(np.float64)
    near = ((triangles.min(1) <= high) & (triangles.max(1) >= low)).all(1)
    is_hole = ~_in_any_triangle(grid, triangles[near]).reshape(len(columns), len(rows))
    cells = np.argwhere(is_hole[:-1, :-1] | is_hole[1:, :-1] | is_hole[:-1, 1:] | is_hole[1:, 1:])
    if not len(cells):
        return scene
    floor = np.unique(floor_faces)
    bare_floor = np.setdiff1d(floor, objects)
    floor = bare_floor if len(bare_floor) else floor
    nearest_floor = floor[cKDTree(scene.points[floor, :2]).query(grid)[1]]
    first = len(scene.points) + cells[:, 0] * len(rows) + cells[:, 1]
    right = first + len(rows)
    faces = np.concatenate([np.stack([first, right, right + 1], 1), np.stack([first, right + 1, first + 1], 1)])  # fmt: skip
    new_points = np.column_stack([grid, scene.points[nearest_floor, 2]]).astype(np.float32)
    return replace(
        scene,
        points=np.concatenate([scene.points, new_points]),
        colours=np.concatenate([scene.colours, scene.colours[nearest_floor]]),
        faces=np.concatenate([scene.faces, faces.astype(np.int32)]),
    )


def _in_any_triangle(points: Array, triangles: Array) -> NDArray[np.bool_]:
    """Return which points, (n, 2) metres, are in any of the triangles, (m, 3, 2), as (n,) bool."""
    edges = np.roll(triangles, -1, axis=1) - triangles
    offsets = points[:, None, None] - triangles
    sides = edges[..., 0] * offsets[..., 1] - edges[..., 1] * offsets[..., 0]
    inside = np.all(sides >= -ROUNDING_SQUARE_METRES, axis=-1) | np.all(
        sides <= ROUNDING_SQUARE_METRES, axis=-1
    )
    is_inside: NDArray[np.bool_] = np.any(inside, axis=1)
    return is_inside
