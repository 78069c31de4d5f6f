"""The cut faces of a map: objects that the cut goes through, such as a tall bookshelf, are filled.

Few scans are closed surfaces: of a bookshelf there is its front, a top that nobody saw, and no back. So a
cut face is found in two ways, by what the cut crosses (the section's lines) and by what is seen above it:
the inside of an outline too narrow for a way, and what lies under a surface that stands on the section. What
is broader may be a niche or a closet under a ceiling of its own. It is a thing where its lid's faces look up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Renderer, colourless
from render_agent.scans.camera import MapCamera
from render_agent.scans.free_space.surface import cell_keys
from render_agent.scans.scene import Scene

FACE_COLOUR = (164, 136, 184)
"""Mauve, which neither a wall's line nor the background nor the grid has."""

NARROW_METRES = 0.36
"""Metres: an outline is a thing's, or a wall's two sides, where no place in it is further from its lines."""

WIDE_METRES = 0.45
"""Metres: nor is a place under the top of a thing further from its edge; what is wider may be a lowered ceiling …"""

BROAD_METRES = 1.5
"""… and is none up to here where next to no floor was scanned below it: nobody has looked into a cabinet."""

SEEN_SHARE = 0.1
"""At most this share of what lies under the top of a broad thing was scanned."""

UNDER_CEILING_METRES = 0.2
"""Metres: what is no lower than this under the ceiling is the ceiling."""

CEILING_SHARE = 0.25
"""A ceiling covers at least this share of what is seen from above."""

STANDING_SHARE = 0.5
"""A surface above the cut stands on the section where at least this share of its edge lies over lines."""

CLOSED_SHARE = 0.9
"""A lid whose edge lies over lines for at least this share closes what stands below it on all sides."""

LEVEL_SHARE = 0.9
"""Faces are level where at least this share of their area is left on the map …"""

ONE_WAY_SHARE = 0.8
"""… and their fronts are known where this share of those that are seen from the cut look up."""

AT_LINE_METRES = 0.05
"""Metres: an edge this near to a line lies over it."""

CELL_METRES = 0.2
"""Metres: cells in which the points of a cloud are counted, to know how far they lie apart."""

SQUARE_SPACINGS = 2.3
"""From the middle to the corner of a cloud's square, in distances of its points (see `splat_radii`)."""


def cut_faces(
    lines: NDArray[np.bool_],
    scanned: NDArray[np.bool_],
    higher: NDArray[np.bool_],
    facing: NDArray[np.int8],
    metres_per_pixel: float,
    at_line: float = AT_LINE_METRES,
) -> NDArray[np.bool_]:
    """Return the pixels, (H, W), of cut faces.

    lines: (H, W), the section's. scanned: (H, W), where something lies below the cut; between the two sides of a
    wall nothing does, and there is nothing to hide. higher, facing: see `reaching_higher`, `level_facing`. at_line:
    metres, see `line_reach`.
    """
    # Nothing beyond the lines and what reaches higher is filled or changes what is, but for a pixel on each side.
    part = tuple(
        slice(max(int(there[0]) - 1, 0), int(there[-1]) + 2)
        for axis in (1, 0)
        if len(there := np.flatnonzero((lines | higher).any(axis=axis)))
    )
    filled = np.zeros_like(lines)
    if part:
        filled[part] = _filled(
            lines[part], scanned[part], higher[part], facing[part], metres_per_pixel, at_line
        )
    return filled


def _filled(
    lines: NDArray[np.bool_],
    scanned: NDArray[np.bool_],
    higher: NDArray[np.bool_],
    facing: NDArray[np.int8],
    metres_per_pixel: float,
    at_line: float,
) -> NDArray[np.bool_]:
    """Return the cut faces of a part of a map; lines and what is higher lie within its outermost pixels."""
    from scipy.ndimage import binary_dilation, binary_erosion, label

    from render_agent.render.map_view.distances import squared_distances

    aside = np.sqrt(squared_distances(lines)) * metres_per_pixel
    places, count = label(~lines)
    narrow = np.bincount(places[aside > NARROW_METRES], minlength=count + 1) == 0
    outside = np.concatenate([places[[0, -1]].ravel(), places[:, [0, -1]].ravel()])
    narrow[outside] = narrow[0] = False
    sizes, filled_sizes = (
        np.bincount(each.ravel(), minlength=count + 1) for each in (places, places * scanned)
    )
    narrow &= 2 * filled_sizes >= sizes
    filled: NDArray[np.bool_] = narrow[places]

    # What is near a line may be that line's own wall, as thick as the points of a cloud are drawn.
    reach = at_line + metres_per_pixel
    tops, count = label(higher & (aside > at_line))
    if not count:
        return filled
    inside = np.sqrt(squared_distances(tops == 0)) * metres_per_pixel
    deeper = {
        limit: np.bincount(tops[inside > limit], minlength=count + 1) > 0
        for limit in (WIDE_METRES, BROAD_METRES)
    }
    edge = (tops > 0) & ~binary_erosion(tops > 0)
    edges = np.bincount(tops[edge], minlength=count + 1)
    standing = np.bincount(tops[edge & (aside <= reach)], minlength=count + 1)
    sizes, seen = (
        np.bincount(each.ravel(), minlength=count + 1) for each in (tops, tops * scanned)
    )
    broad = ~deeper[BROAD_METRES] & (seen <= SEEN_SHARE * sizes)
    lids, ceilings = (np.bincount(tops[facing == way], minlength=count + 1) > 0 for way in (1, -1))
    closed = ~deeper[BROAD_METRES] & lids & ~ceilings & (standing >= CLOSED_SHARE * edges)
    things = (~deeper[WIDE_METRES] | broad | closed) & (standing >= STANDING_SHARE * edges)
    things[0] = False
    steps = int(np.ceil(reach / metres_per_pixel))
    filled |= binary_dilation(things[tops], iterations=steps) & higher
    return filled


def reaching_higher(
    renderer: Renderer, scene: Scene, camera: MapCamera, ceiling: float, size: tuple[int, int]
) -> NDArray[np.bool_]:
    """Return the pixels, (H, W), of `camera`'s map over which there is a surface above the cut but the ceiling.

    ceiling: metres, world frame, where the storey ends. size: width and height, pixels. RenderError where it
    cannot be drawn.
    """
    under, renderer = ceiling - UNDER_CEILING_METRES, colourless(renderer)
    above = MapCamera(
        camera.centre, max(ceiling, float(scene.bounds[1, 2])) + 1, camera.metres_per_pixel
    )
    heights = above.height - renderer.draw(scene, above, *size).depth
    if (heights > under).sum() >= CEILING_SHARE * np.isfinite(heights).sum():
        below = MapCamera(camera.centre, under, camera.metres_per_pixel)
        heights = under - renderer.draw(scene, below, *size).depth
    higher: NDArray[np.bool_] = heights > camera.height
    return higher


def level_facing(
    scene: Scene, camera: MapCamera, ceiling: float, seen: NDArray[np.int32]
) -> NDArray[np.int8]:
    """Return, (H, W), 1 at the middle of a level face above the cut that looks up, -1 of one that looks down, else 0.

    Only of a mesh whose floor looks up: the front of a face is on one side in some scans, on any in others.
    ceiling: metres, world frame. seen: (H, W), the face that is seen from the cut, -1 where it is unknown.
    """
    facing = np.zeros(seen.shape, np.int8)
    if scene.faces is None:
        return facing
    pixels_of = np.bincount(seen.ravel() + 1)[1:]
    seen_faces = np.flatnonzero(pixels_of)
    level, upward = _level_faces(scene, seen_faces)
    shown = pixels_of[seen_faces[level]]
    if not len(level) or shown[upward].sum() / shown.sum() < ONE_WAY_SHARE:
        return facing
    heights = scene.points[:, 2]
    over = (heights > camera.height) & (heights < ceiling - UNDER_CEILING_METRES)
    first, second, third = scene.faces.T
    between = np.flatnonzero(over[first] & over[second] & over[third])
    level, upward = _level_faces(scene, between)
    middles = scene.points[scene.faces[between[level]]].mean(axis=1, dtype=np.float64)
    pixels = np.floor(camera.project(middles, *seen.shape[::-1])[0]).astype(np.int64)
    inside = ((pixels >= 0) & (pixels < seen.shape[::-1])).all(axis=1)
    for way, chosen in ((1, upward), (-1, ~upward)):  # a lid with a ceiling under it is a ceiling
        columns, rows = pixels[inside & chosen].T
        facing[rows, columns] = way
    return facing


def _level_faces(
    scene: Scene, which: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return which of the faces `which`, (m,), are level, (k,) into them, and whether each of those looks up, (k,)."""
    assert scene.faces is not None
    a, b, c = (scene.points[corner].astype(np.float64).T for corner in scene.faces[which].T)
    (x1, y1, z1), (x2, y2, z2) = b - a, c - a
    upwards = x1 * y2 - y1 * x2
    length = np.sqrt((y1 * z2 - z1 * y2) ** 2 + (z1 * x2 - x1 * z2) ** 2 + upwards**2)
    level = np.flatnonzero(np.abs(upwards) > LEVEL_SHARE * length)
    return level, upwards[level] > 0


def line_reach(scene: Scene, height: float) -> float:
    """Return how far from a line of the section at `height`, in metres, the drawing of that line's own wall may reach.

    A thin cloud is drawn in squares as large as its points lie apart, which stand out of a wall.
    """
    above = scene.points[scene.points[:, 2] > height]
    if not scene.is_cloud or scene.gaussians is not None or not len(above):
        return AT_LINE_METRES
    counts = np.unique(cell_keys(above, CELL_METRES), return_counts=True)[1]
    # of the thinner parts; where one point stands for a cell, they lie that far apart or further
    return AT_LINE_METRES + SQUARE_SPACINGS * CELL_METRES / float(np.sqrt(np.quantile(counts, 0.1)))
