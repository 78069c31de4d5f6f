"""Edits of a scene and of its boxes: an object is removed, copied, moved or painted, or all of it moved, turned, scaled."""

from __future__ import annotations

import colorsys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from render_agent.errors import SceneError
from render_agent.scans.boxes import Array, OrientedBox, rotation
from render_agent.scans.instances import read_instances
from render_agent.scans.scene import Scene
from render_agent.util.safe_parse import Count, Finite

Boxes = Mapping[str, Sequence[OrientedBox]]
"""The boxes of a scene by label, in metres of its file."""

Thing = tuple[str, int]
"""An object: its label, and its index among the boxes of that label."""

MARGINS_METRES = (0.01, 0.03)
"""So far a surface may lie outside its box; the second is tried where a scan has bent it."""

TIGHT_METRES = 0.08
"""An object whose surface ends farther than this inside its box is not all there."""

INSIDE_METRES = 0.03
"""So deep inside the box of an object no surface lies but its own, or that of another object."""

PATCH_METRES = 0.06
"""Between the vertices of the floor that is laid where an object stood and nothing was scanned."""

LEVEL_METRES = 0.06
"""A vertex this near to the height of the floor is of the floor."""

ROUNDING_SQUARE_METRES = 1e-6
"""Square metres by which a point may lie outside a triangle that it is on the edge of."""


class Edit(Struct, frozen=True):
    """One edit; without a label it is of the whole scene.

    A point p of what is transformed, or of a copy, goes to `factor` · R(`degrees`) p + `shift`: R turns about z,
    counter-clockwise from above; metres in the frame of the scan's file, z up. recolour: `degrees` is the hue.
    """

    verb: Literal["remove", "copy", "transform", "recolour"]
    label: str | None = None
    index: Count = 0
    degrees: Finite = 0.0
    factor: Finite = 1.0
    shift: tuple[Finite, Finite, Finite] = (0.0, 0.0, 0.0)

    @property
    def moves_all(self) -> bool:
        """Whether every point of the scene goes elsewhere."""
        return self.verb == "transform" and self.label is None

    def moved(self, points: Array, origin: Array | float = 0.0) -> Array:
        """Return where points, (…, 3) metres, go; origin: what was taken off the coordinates of the file."""
        there: Array = self.factor * (points + origin) @ rotation(self.degrees).T + self.shift
        return there - origin

    def moved_box(self, box: OrientedBox) -> OrientedBox:
        """Return where a box of the file's frame goes."""
        turned = box.axes @ rotation(self.degrees).T
        return OrientedBox(self.moved(box.centre), self.factor * box.size, turned)


def edited_boxes(boxes: Boxes, edits: Iterable[Edit]) -> dict[str, list[OrientedBox]]:
    """Return the boxes of a scene that was edited; a copy comes last of its label."""
    moved = {label: list(some) for label, some in boxes.items()}
    for edit in edits:
        if edit.moves_all:
            moved = {label: [*map(edit.moved_box, some)] for label, some in moved.items()}
        elif edit.label is not None:
            own = moved[edit.label]
            if edit.verb == "remove":
                del own[edit.index]
            elif edit.verb == "copy":
                own.append(edit.moved_box(own[edit.index]))
            elif edit.verb == "transform":
                own[edit.index] = edit.moved_box(own[edit.index])
    return moved


def edited_scene(scene: Scene, boxes: Boxes, edits: Sequence[Edit]) -> Scene:
    """Return a scene that was edited; boxes: its own, before that, in the frame of its file.

    An object is the parts of the mesh that lie inside its box; where it stood floor is laid if there was none.
    SceneError where an edit asks for an object that `Parts` does not find.
    """
    if not any(edit.label for edit in edits):
        return reduce(_edit_all, edits, scene)
    parts = Parts(scene, boxes)
    for edit in edits:
        scene = _edit_all(scene, edit) if edit.label is None else _edit_one(scene, parts, edit)
    return scene


class Parts:
    """The objects of a mesh whose colours lie at its vertices, found by their boxes; `things` has them.

    A part of the mesh belongs to the smallest box that holds it. Parts are what instance labels beside the scan
    call one object, else what hangs together. Only an object whose parts fill its box is among them: of any other
    nobody can tell which faces are its own. SceneError where the scene is a cloud, a splat or has a texture, or its
    labels cannot be read.
    """

    def __init__(self, scene: Scene, boxes: Boxes) -> None:
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import connected_components

        if scene.faces is None or scene.texture is not None:
            raise SceneError("its objects cannot be edited: it is no mesh with plain colours")
        number = len(scene.points)
        labels = read_instances(scene.source, number)
        if labels is None:
            edges = scene.faces[:, [0, 1, 1, 2]].reshape(-1, 2).T
            ones = np.ones(edges.shape[1], bool)
            graph = coo_matrix((ones, tuple(edges)), shape=(number, number))
            labels = connected_components(graph, directed=False)[1]
        self._part_of = labels - labels.min()
        self._labelled = labels.min() < 0
        self.things: dict[Thing, NDArray[np.intp]] = {}
        points = scene.points.astype(np.float64) + scene.origin
        named = {(name, n): box for name, some in boxes.items() for n, box in enumerate(some)}
        for margin in MARGINS_METRES:
            left = {thing: box for thing, box in named.items() if thing not in self.things}
            self._find(points, left, margin)

    def _find(self, points: Array, boxes: Mapping[Thing, OrientedBox], margin: float) -> None:
        sizes = np.bincount(self._part_of)
        free = np.ones(len(sizes), bool)
        free[0] = not self._labelled  # what belongs to no object
        for vertices in self.things.values():
            free[self._part_of[vertices]] = False
        for thing in sorted(boxes, key=lambda thing: float(boxes[thing].size.prod())):
            box = boxes[thing]
            low, high = box.grown(margin).bounds
            near = np.flatnonzero(((points >= low) & (points <= high)).all(1))
            inside = near[(np.abs(box.local(points[near])) <= box.size / 2 + margin).all(1)]
            whole = free & (np.bincount(self._part_of[inside], minlength=len(sizes)) == sizes)
            vertices = np.flatnonzero(whole[self._part_of])
            deep = near[(np.abs(box.local(points[near])) < box.size / 2 - INSIDE_METRES).all(1)]
            foreign = free[self._part_of[deep]] & ~whole[self._part_of[deep]]
            if len(vertices) and _fills(box, points[vertices]) and not foreign.any():
                self.things[thing] = vertices
                free &= ~whole


def _fills(box: OrientedBox, points: Array) -> bool:
    local = box.local(points)
    return bool((box.size / 2 - np.minimum(-local.min(0), local.max(0)) <= TIGHT_METRES).all())


def _edit_all(scene: Scene, edit: Edit) -> Scene:
    if edit.verb == "recolour":
        return replace(scene, colours=_painted(scene.colours, edit.degrees))
    if scene.gaussians is not None:
        raise SceneError("it cannot be edited: it is a splat")
    origin = np.array(scene.origin)
    low, high = scene.bounds
    corners = np.array([(x, y, z) for x in (low[0], high[0]) for y in (low[1], high[1]) for z in (low[2], high[2])])  # fmt: skip
    corners = edit.moved(corners, origin)
    heights = edit.moved(np.array([(0, 0, scene.floor), (0, 0, scene.ceiling)]), origin)[:, 2]
    return replace(
        scene,
        points=edit.moved(scene.points.astype(np.float64), origin).astype(np.float32),
        bounds=np.stack([corners.min(0), corners.max(0)]),
        floor=float(heights[0]),
        ceiling=float(heights[1]),
    )


def _edit_one(scene: Scene, parts: Parts, edit: Edit) -> Scene:
    """Return a scene of which one object was edited; vertices keep their places in its arrays."""
    thing = str(edit.label), edit.index
    if thing not in parts.things or scene.faces is None:
        raise SceneError(f"its {edit.label} {edit.index + 1} cannot be told from what it touches")
    vertices = parts.things[thing]
    points, colours, faces = scene.points, scene.colours, scene.faces
    if edit.verb == "recolour":
        colours = colours.copy()
        colours[vertices] = _painted(colours[vertices], edit.degrees)
        return replace(scene, colours=colours)
    own = np.zeros(len(points), bool)
    own[vertices] = True
    its_faces = own[faces].all(1)
    others = ~own[faces].any(1)  # those between an object and another one go with neither
    torn = points[np.unique(faces[~(its_faces | others)])]
    objects = np.concatenate([*parts.things.values()])
    if edit.verb == "remove":
        return _with_floor(replace(scene, faces=faces[others]), points[vertices], torn, objects)
    there = edit.moved(points[vertices].astype(np.float64), np.array(scene.origin))
    if edit.verb == "copy":
        place = np.zeros(len(points), np.int32)
        place[vertices] = np.arange(len(points), len(points) + len(vertices))
        return replace(
            scene,
            points=np.concatenate([points, there.astype(np.float32)]),
            colours=np.concatenate([colours, colours[vertices]]),
            faces=np.concatenate([faces, place[faces[its_faces]]]),
        )
    moved = points.copy()
    moved[vertices] = there
    edited = replace(scene, points=moved, faces=faces[its_faces | others])
    return _with_floor(edited, points[vertices], torn, objects)


def _with_floor(
    scene: Scene,
    stood: NDArray[np.float32],
    torn: NDArray[np.float32],
    objects: NDArray[np.intp],
) -> Scene:
    """Return a scene with floor laid under where an object stood, (n, 3) metres, if none is there.

    torn: (m, 3), what faces hung on that joined it to others and are gone. objects: the vertices of all objects, whose
    undersides are no floor. The new floor has the height and colour of the floor nearest to it.
    """
    from scipy.spatial import cKDTree

    if scene.faces is None or stood[:, 2].min() > scene.floor + LEVEL_METRES:
        return scene
    level = np.abs(scene.points[:, 2] - scene.floor) < LEVEL_METRES
    floor_faces = scene.faces[level[scene.faces].all(1)]
    if not len(floor_faces):
        return scene
    around = np.concatenate([stood, torn[np.abs(torn[:, 2] - scene.floor) < LEVEL_METRES]])[:, :2]
    low, high = around.min(0), around.max(0)
    columns, rows = (np.linspace(a, b, int((b - a) / PATCH_METRES) + 2) for a, b in zip(low, high, strict=True))  # fmt: skip
    grid = np.stack(np.meshgrid(columns, rows, indexing="ij"), -1).reshape(-1, 2)
    triangles = scene.points[floor_faces][:, :, :2].astype(np.float64)
    near = ((triangles.min(1) <= high) & (triangles.max(1) >= low)).all(1)
    bare = ~_covered(grid, triangles[near]).reshape(len(columns), len(rows))
    cells = np.argwhere(bare[:-1, :-1] | bare[1:, :-1] | bare[:-1, 1:] | bare[1:, 1:])
    if not len(cells):
        return scene
    floor = np.unique(floor_faces)
    bare_floor = np.setdiff1d(floor, objects)
    floor = bare_floor if len(bare_floor) else floor
    like = floor[cKDTree(scene.points[floor, :2]).query(grid)[1]]
    first = len(scene.points) + cells[:, 0] * len(rows) + cells[:, 1]
    right = first + len(rows)
    faces = np.concatenate([np.stack([first, right, right + 1], 1), np.stack([first, right + 1, first + 1], 1)])  # fmt: skip
    laid = np.column_stack([grid, scene.points[like, 2]]).astype(np.float32)
    return replace(
        scene,
        points=np.concatenate([scene.points, laid]),
        colours=np.concatenate([scene.colours, scene.colours[like]]),
        faces=np.concatenate([scene.faces, faces.astype(np.int32)]),
    )


def _covered(points: Array, triangles: Array) -> NDArray[np.bool_]:
    """Return which points, (n, 2), lie in any of some triangles, (m, 3, 2), metres."""
    along = np.roll(triangles, -1, axis=1) - triangles
    there = points[:, None, None] - triangles
    sides = along[..., 0] * there[..., 1] - along[..., 1] * there[..., 0]
    inside = np.all(sides >= -ROUNDING_SQUARE_METRES, axis=-1) | np.all(
        sides <= ROUNDING_SQUARE_METRES, axis=-1
    )
    covered: NDArray[np.bool_] = np.any(inside, axis=1)
    return covered


def _painted(colours: NDArray[np.uint8], hue: float) -> NDArray[np.uint8]:
    """Return colours, (n, 3) RGB, in one hue, degrees, as light or dark as they were."""
    tint = np.array(colorsys.hsv_to_rgb(hue / 360 % 1, 0.6, 0.9))
    light = colours.astype(np.float64) @ (0.299, 0.587, 0.114)
    painted = np.clip(light[:, None] * tint / max(float(tint @ (0.299, 0.587, 0.114)), 0.5), 0, 255)
    rounded: NDArray[np.uint8] = np.round(painted).astype(np.uint8)
    return rounded
