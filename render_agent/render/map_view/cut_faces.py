"""Finds the cut faces of a map: filled areas where the cut goes through objects, such as a tall bookshelf.

Few scans are closed surfaces: a scanned bookshelf has a front, but often neither a top nor a back. Cut faces are
therefore derived from both the section lines and the surface above the cut. They are the insides of outlines that are
too narrow to walk through, and areas below a surface whose edge runs along section lines. Wider areas may also be a
niche or a closet with a ceiling; they are cut faces only if the faces of their lid point up.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from render_agent.render.renderer import Renderer, without_colours
from render_agent.scans.camera import MapCamera
from render_agent.scans.free_space.surface import cell_keys
from render_agent.scans.scene import Scene

FACE_COLOUR = (164, 136, 184)  # mauve, distinct from wall lines, background and grid

# Limits, in metres, of the distance between a place in a cut face and its edge:
NARROW_METRES = 0.36  # inside an outline, which may also be the two sides of a wall
WIDE_METRES = 0.45  # below an object's top; wider areas may be below a lowered ceiling
# below a top with almost no scanned floor underneath, such as that of a closed cabinet
BROAD_METRES = 1.5

SEEN_SHARE = 0.1  # maximum share of scanned surface below the top of a broad object
UNDER_CEILING_METRES = 0.2  # surface within this distance of the ceiling belongs to it
CEILING_SHARE = 0.25  # minimum share of the view from above that a ceiling covers
STANDING_SHARE = 0.5  # minimum share of a top's edge that runs along section lines
CLOSED_SHARE = 0.9  # the same for a lid that closes an object on all sides
LEVEL_SHARE = 0.9  # a face is level if its projected area is at least this share of its area
# Faces are oriented consistently if at least this share of the visible level ones point up.
ONE_WAY_SHARE = 0.8
AT_LINE_METRES = 0.05  # an edge this close to a section line runs along it
CELL_METRES = 0.2  # cell size for estimating the point spacing of a cloud
SQUARE_SPACINGS = 2.3  # half the diagonal of a cloud's splats in point spacings (see blocks.py)


def cut_faces(
    lines: NDArray[np.bool_],  # section lines, (H, W) bool
    surface: NDArray[np.bool_],
    higher: NDArray[np.bool_],
    facing: NDArray[np.int8],
    metres_per_pixel: float,
    at_line: float = AT_LINE_METRES,
) -> NDArray[np.bool_]:
    """Return the pixels of cut faces, (H, W) bool. `surface` marks pixels with surface below the cut, (H, W)."""
    # Only the bounding box of lines and higher surface matters, plus one pixel on each side.
    part = tuple(
        slice(max(int(occupied[0]) - 1, 0), int(occupied[-1]) + 2)
        for axis in (1, 0)
        if len(occupied := np.flatnonzero((lines | higher).any(axis=axis)))
    )
    fill = np.zeros_like(lines)
    if part:
        fill[part] = _fill_cut_faces(
            lines[part], surface[part], higher[part], facing[part], metres_per_pixel, at_line
        )
    return fill


def _fill_cut_faces(
    lines: NDArray[np.bool_],
    surface: NDArray[np.bool_],
    higher: NDArray[np.bool_],
    facing: NDArray[np.int8],
    metres_per_pixel: float,
    at_line: float,
) -> NDArray[np.bool_]:
    """Return the cut faces of a cropped map, in which lines and higher surface do not touch the border."""
    from scipy.ndimage import binary_dilation, binary_erosion, label

    from render_agent.render.map_view.distances import squared_distances

    line_distance = np.sqrt(squared_distances(lines)) * metres_per_pixel
    places, count = label(~lines)
    narrow = np.bincount(places[line_distance > NARROW_METRES], minlength=count + 1) == 0
    outside = np.concatenate([places[[0, -1]].ravel(), places[:, [0, -1]].ravel()])
    narrow[outside] = narrow[0] = False
    sizes, filled_sizes = (
        np.bincount(area_map.ravel(), minlength=count + 1)
        for area_map in (places, places * surface)
    )
    narrow &= 2 * filled_sizes >= sizes
    fill: NDArray[np.bool_] = narrow[places]

    # Surface near a line may be the wall itself, which is as thick as the splats of a cloud.
    reach = at_line + metres_per_pixel
    tops, count = label(higher & (line_distance > at_line))
    if not count:
        return fill
    inside = np.sqrt(squared_distances(tops == 0)) * metres_per_pixel
    deeper = {
        limit: np.bincount(tops[inside > limit], minlength=count + 1) > 0
        for limit in (WIDE_METRES, BROAD_METRES)
    }
    edge = (tops > 0) & ~binary_erosion(tops > 0)
    edges = np.bincount(tops[edge], minlength=count + 1)
    standing = np.bincount(tops[edge & (line_distance <= reach)], minlength=count + 1)
    sizes, surface_sizes = (
        np.bincount(area_map.ravel(), minlength=count + 1) for area_map in (tops, tops * surface)
    )
    broad = ~deeper[BROAD_METRES] & (surface_sizes <= SEEN_SHARE * sizes)
    lids, ceilings = (np.bincount(tops[facing == way], minlength=count + 1) > 0 for way in (1, -1))
    is_closed = ~deeper[BROAD_METRES] & lids & ~ceilings & (standing >= CLOSED_SHARE * edges)
    objects = (~deeper[WIDE_METRES] | broad | is_closed) & (standing >= STANDING_SHARE * edges)
    objects[0] = False
    steps = int(np.ceil(reach / metres_per_pixel))
    fill |= binary_dilation(objects[tops], iterations=steps) & higher
    return fill


def surface_above_cut(
    renderer: Renderer,
    scene: Scene,
    camera: MapCamera,
    ceiling: float,  # height at which the storey ends, metres, world frame
    size: tuple[int, int],  # width and height of the map in pixels
) -> NDArray[np.bool_]:
    """Return the map pixels, (H, W) bool, with surface above the cut, excluding the ceiling."""
    under, renderer = ceiling - UNDER_CEILING_METRES, without_colours(renderer)
    above = MapCamera(
        camera.centre, max(ceiling, float(scene.bounds[1, 2])) + 1, camera.metres_per_pixel
    )
    heights = above.height - renderer.draw(scene, above, *size).depth
    if (heights > under).sum() >= CEILING_SHARE * np.isfinite(heights).sum():
        below = MapCamera(camera.centre, under, camera.metres_per_pixel)
        heights = under - renderer.draw(scene, below, *size).depth
    higher: NDArray[np.bool_] = heights > camera.height
    return higher


def level_face_orientation(
    scene: Scene,
    camera: MapCamera,
    ceiling: float,  # height at which the storey ends, metres, world frame
    # index of the face visible from the cut, (H, W), -1 where unknown
    visible_faces: NDArray[np.int32],
) -> NDArray[np.int8]:
    """Return the orientation of level faces above the cut at the pixels of their centres, (H, W): 1 for up, -1 for
    down, else 0.

    All 0 unless the scene is a mesh whose floor faces point up, because some scans have arbitrarily oriented faces.
    """
    facing = np.zeros(visible_faces.shape, np.int8)
    if scene.faces is None:
        return facing
    pixels_of = np.bincount(visible_faces.ravel() + 1)[1:]
    seen_faces = np.flatnonzero(pixels_of)
    level, upward = _level_faces(scene, seen_faces)
    num_pixels = pixels_of[seen_faces[level]]
    if not len(level) or num_pixels[upward].sum() / num_pixels.sum() < ONE_WAY_SHARE:
        return facing
    heights = scene.points[:, 2]
    over = (heights > camera.height) & (heights < ceiling - UNDER_CEILING_METRES)
    a, b, c = scene.faces.T
    above_cut = np.flatnonzero(over[a] & over[b] & over[c])
    level, upward = _level_faces(scene, above_cut)
    middles = scene.points[scene.faces[above_cut[level]]].mean(axis=1, dtype=np.float64)
    pixels = np.floor(camera.project(middles, *visible_faces.shape[::-1])[0]).astype(np.int64)
    inside = ((pixels >= 0) & (pixels < visible_faces.shape[::-1])).all(axis=1)
    for way, mask in ((1, upward), (-1, ~upward)):  # a lid with a ceiling below it is a ceiling
        columns, rows = pixels[inside & mask].T
        facing[rows, columns] = way
    return facing


def _level_faces(
    scene: Scene, indices: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return the level faces among `indices`, (m,), as indices (k,), and whether each points up, (k,) bool."""
    assert scene.faces is not None
    a, b, c = (scene.points[corner].astype(np.float64).T for corner in scene.faces[indices].T)
    (x1, y1, z1), (x2, y2, z2) = b - a, c - a
    upwards = x1 * y2 - y1 * x2
    length = np.sqrt((y1 * z2 - z1 * y2) ** 2 + (z1 * x2 - x1 * z2) ** 2 + upwards**2)
    level = np.flatnonzero(np.abs(upwards) > LEVEL_SHARE * length)
    return level, upwards[level] > 0


def wall_reach(scene: Scene, height: float) -> float:
    """Return the distance in metres from a section line within which surface above the cut may be the line's own wall.

    Sparse clouds are drawn with splats as large as their point spacing, which protrude from walls.
    """
    above = scene.points[scene.points[:, 2] > height]
    if not scene.is_cloud or scene.gaussians is not None or not len(above):
        return AT_LINE_METRES
    counts = np.unique(cell_keys(above, CELL_METRES), return_counts=True)[1]
    # Use the sparser parts. If a cell has a single point, the spacing is at least the cell size.
    return AT_LINE_METRES + SQUARE_SPACINGS * CELL_METRES / float(np.sqrt(np.quantile(counts, 0.1)))
