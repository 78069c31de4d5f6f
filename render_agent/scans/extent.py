"""The extent of a room: its bounds without outliers, and the heights of its floor and ceiling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.formats.cleaning import Scan
from render_agent.scans.free_space.surface import (
    areas_and_normals,
    bisect_edges,
    face_corners,
    first_per_cell,
    longest_edges,
)
from render_agent.scans.solid import sample_solid

PIECE_METRES = 0.25  # maximum edge length of the mesh pieces whose areas are summed

# Limits the work: of more small faces or points, only every k-th is used.
MAX_PIECES = 1_000_000
MAX_FACES = 1_000_000
MAX_POINTS = 2_000_000

MAX_FACE_METRES = 100.0  # longer faces are scan artefacts and are ignored
# A cloud's area is counted in occupied cells, so that its density does not matter.
CELL_METRES = 0.05

# Along each axis, the room extends over slices of BIN_METRES that contain at least MIN_SQUARE_METRES of surface. Parts
# beyond a gap of more than GAP_METRES are included if they have MIN_SHARE of the surface.
BIN_METRES = 0.1
GAP_METRES = 1.0
MIN_SQUARE_METRES = 0.02
MIN_SHARE = 0.03

LEVEL_METRES = 0.02  # bin height of the histogram in which floor and ceiling are found
NEAR_METRES = 1.5 * LEVEL_METRES  # surface this close to a level belongs to it
STRONG_SHARE = 0.25  # minimum area of a floor or ceiling, relative to the largest level surface
MIN_CEILING_METRES = 1.8  # minimum height of a ceiling above the floor

# A level surface is the underside of a slab rather than a floor if other level surface covers this share of it from at
# most this height above, and if there is room to stand above that surface.
COVERED_SHARE = 0.7
MAX_SLAB_METRES = MIN_CEILING_METRES
MIN_ROOM_METRES = 1.2
# A level faces up or down if the difference between its upward and downward shares is at least this.
FACING_SHARE = 0.9
# If no ceiling covers the floor, as in a house on open ground, only the part under roofs of at least this size counts.
MIN_ROOF_SQUARE_METRES = 4.0
MIN_ROOF_CELLS = (
    5  # minimum width and depth of a roof in cells of the ground plan; shelves are narrower
)
CEILING_COVER_SHARE = 0.5  # share of the floor that a ceiling covers, together with lower ceilings
PLAN_METRES = 0.25  # cell size in which covered area is counted
WALL_SHARE = 0.25  # a cell of a cloud is a wall if this share of its slices has surface
VALLEY_SHARE = 0.5  # two peaks are distinct if the area between them falls below this share of both


@dataclass(frozen=True)
class Extent:
    """Bounds, (2, 3) metres (lowest and highest corner), and heights of floor and ceiling in metres."""

    bounds: NDArray[np.float64]
    floor: float
    ceiling: float


@dataclass(frozen=True)
class _Pieces:
    """Surface samples: centres (p, 3) in metres, areas (p,) in square metres, z of the unit normals (p,)."""

    centres: NDArray[np.float32]
    areas: NDArray[np.float32]
    upward: NDArray[np.float32] | None  # None for a cloud

    def __getitem__(self, is_inside: NDArray[np.bool_]) -> _Pieces:
        upward = None if self.upward is None else self.upward[is_inside]
        return _Pieces(self.centres[is_inside], self.areas[is_inside], upward)


def measure_extent(scan: Scan) -> Extent:
    """Return the bounds of a cleaned scan without outliers, and the heights of its floor and ceiling.

    Floor and ceiling are strong peaks in the area-weighted height histogram of level surfaces. The floor is the lowest
    peak that is not covered from close above, as the underside of a slab is covered by its top. The ceiling is the
    lowest peak that, together with lower ones, covers half of the floor; otherwise the highest peak, or the top of the
    bounds if there is no strong peak above the floor. If no ceiling covers half of the floor but there are roofs, as in
    a house on open ground, only the part under roofs counts. The direction of faces is only used in meshes of solids
    that consistently face outwards, because many meshes are inside out.
    """
    if scan.gaussians is not None:
        scan = Scan(sample_solid(scan.points, scan.gaussians, CELL_METRES))
    pieces = _cloud_pieces(scan) if scan.faces is None else _mesh_pieces(scan)
    bounds = _bounds(scan, pieces)
    inside = ((pieces.centres >= bounds[0]) & (pieces.centres <= bounds[1])).all(axis=1)
    return Extent(bounds, *_floor_and_ceiling(pieces[inside], bounds))


def _mesh_pieces(scan: Scan) -> _Pieces:
    max_edge = PIECE_METRES
    while (pieces := _cut_mesh(scan, max_edge)) is None:
        max_edge *= 2
    corners, weights = pieces
    areas, normals = areas_and_normals(corners)
    centres = np.asarray((corners[:, 0] + corners[:, 1] + corners[:, 2]) / 3, np.float32)
    return _Pieces(centres, areas * weights, normals[:, 2])


def _cut_mesh(
    scan: Scan, max_edge: float
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """Return pieces of the faces, (p, 3, 3), with no edge longer than `max_edge`, and their weights, (p,).

    If there are many small faces, only every k-th is used, with weight k. Returns None if there would be too many
    pieces.
    """
    assert scan.faces is not None
    stride = max(1, len(scan.faces) // MAX_FACES)
    parts, weights, count = [], [], 0
    for corners in face_corners(scan.points, scan.faces):
        lengths = longest_edges(corners)[0]
        small = corners[lengths <= max_edge][::stride]
        large = corners[(lengths > max_edge) & (lengths <= MAX_FACE_METRES)]
        pieces = bisect_edges(large, max_edge, MAX_PIECES - count)
        if pieces is None:
            return None
        count += len(pieces.corners)
        parts += [small, pieces.corners]
        weights += [
            np.full(len(small), np.float32(stride)),
            np.ones(len(pieces.corners), np.float32),
        ]
    return np.concatenate(parts), np.concatenate(weights)


def _cloud_pieces(scan: Scan) -> _Pieces:
    points = scan.points[:: max(1, len(scan.points) // MAX_POINTS)]
    centres = points[first_per_cell(points, CELL_METRES)]
    return _Pieces(centres, np.full(len(centres), np.float32(CELL_METRES * CELL_METRES)), None)


def _bounds(scan: Scan, pieces: _Pieces) -> NDArray[np.float64]:
    """Return the bounds, (2, 3) metres, of the dense part of the surface, axis by axis."""
    bounds = np.empty((2, 3))
    min_area = min(MIN_SQUARE_METRES, 2e-4 * float(pieces.areas.sum()))
    points = scan.points
    if scan.faces is not None:
        mark = np.zeros(len(scan.points), bool)
        mark[scan.faces] = True
        points = scan.points[mark]
    for axis in range(3):
        low, high = _dense_interval(pieces.centres[:, axis], pieces.areas, min_area)
        reach = 0.5 * PIECE_METRES if scan.faces is not None else 0.0
        positions = points[:, axis]
        near = positions[(positions >= low - reach) & (positions <= high + reach)]
        bounds[:, axis] = (near.min(), near.max()) if len(near) else (low, high)
        centres = pieces.centres[:, axis]
        is_inside = (centres >= low) & (centres <= high)
        pieces = pieces[is_inside] if is_inside.any() else pieces
    return bounds


def _dense_interval(
    heights: NDArray[np.float32], areas: NDArray[np.float32], min_area: float
) -> tuple[float, float]:
    """Return the interval in metres along one axis that contains the surface without outliers."""
    if not len(heights):
        return -np.inf, np.inf
    order = np.argsort(heights)
    positions, mass = heights[order].astype(np.float64), np.cumsum(areas[order], dtype=np.float64)
    middle = positions[min(int(np.searchsorted(mass, mass[-1] / 2)), len(positions) - 1)]
    slices = np.floor((positions - middle) / BIN_METRES).astype(np.int64)
    names, first = np.unique(slices, return_index=True)
    amounts = np.diff(np.append(np.concatenate([[0.0], mass])[first], mass[-1]))
    dense = (amounts >= min_area) | (names == 0)
    names, amounts = names[dense], amounts[dense]
    begins = np.append(0, np.flatnonzero(np.diff(names) * BIN_METRES > GAP_METRES) + 1)
    ends = np.append(begins[1:], len(names))
    shares = np.add.reduceat(amounts, begins)
    in_room = shares >= MIN_SHARE * amounts.sum()
    in_room |= (names[begins] <= 0) & (names[ends - 1] >= 0)
    low, high = names[begins[in_room][0]], names[ends[in_room][-1] - 1]
    return float(middle + low * BIN_METRES), float(middle + (high + 1) * BIN_METRES)


def _floor_and_ceiling(
    pieces: _Pieces, bounds: NDArray[np.float64], is_roofed: bool = False
) -> tuple[float, float]:
    bottom, top = float(bounds[0, 2]), float(bounds[1, 2])
    level = pieces if pieces.upward is None else pieces[np.abs(pieces.upward) > 0.9]
    if not len(level.centres) or top - bottom < 3 * LEVEL_METRES:
        return bottom, top
    slices = min(int(np.ceil((top - bottom) / LEVEL_METRES)) + 1, 100_000)
    steps = np.arange(slices + 1, dtype=np.float64)
    edges: NDArray[np.float64] = bottom - LEVEL_METRES / 2 + LEVEL_METRES * steps
    amounts = np.histogram(level.centres[:, 2], edges, weights=level.areas)[0].astype(np.float64)
    # The walls of a cloud fill every slice; only the excess over them is level.
    if level.upward is None:
        occupied_amounts = amounts[amounts > 0]
        amounts = (
            np.maximum(amounts - np.median(occupied_amounts), 0)
            if len(occupied_amounts)
            else amounts
        )
    if not amounts.max() > 0:
        return bottom, top
    levels = _Levels(level, edges, amounts)
    floor = levels.floor(top)
    if (ceiling := levels.ceiling(floor)) is not None:
        return floor, ceiling
    if not is_roofed and (under_roof := levels.under_roof(floor)).any():
        return _floor_and_ceiling(level[under_roof], bounds, is_roofed=True)
    highest = levels.highest(floor)
    return floor, top if highest is None else highest


class _Levels:
    """The heights of level surface."""

    def __init__(
        self,
        level: _Pieces,
        edges: NDArray[np.float64],  # edges of the slices of a height histogram, (s + 1,) metres
        amounts: NDArray[np.float64],  # level area in each slice, (s,) square metres
    ) -> None:
        self.edges = edges
        self.heights = level.centres[:, 2]
        self.areas = level.areas
        self.smooth = np.convolve(amounts, np.ones(3), "same")
        self.min_area = STRONG_SHARE * float(self.smooth.max())
        self.strong = np.flatnonzero(self.smooth >= self.min_area)
        self._facing = self._facing_shares(level, edges)
        self.peaks = self._peaks(amounts)
        cell = max(PLAN_METRES, 1.5 * float(np.sqrt(level.areas.max())))
        x, y = np.floor(level.centres[:, :2].T / cell).astype(np.int64)
        self._cells = x << 32 ^ y & 0xFFFFFFFF
        self._plan = x - x.min(), y - y.min()
        self._cell_square_metres = cell * cell
        self._slices = np.digitize(self.heights, edges) - 1
        self._walls = self._filled_cells() if level.upward is None else np.empty(0, np.int64)

    def floor(self, top: float) -> float:
        """Return the height of the floor below `top`, the top of the scan, in metres."""
        floor = self._uphill(self._lowest(), 1)
        while (upper := self._top_of_slab(floor, top)) is not None:
            floor = upper
        return floor

    def ceiling(self, floor: float) -> float | None:
        """Return the height of the ceiling above a floor, both in metres; None if there is none."""
        above = self._above(floor)
        if not len(above):
            return None
        on_floor = self._at_height(floor)
        for run in np.split(above, np.flatnonzero(np.diff(above) > 1) + 1):
            overhead = np.isin(self._slices, above[above <= run[-1]])
            if self._cover(on_floor, overhead) < CEILING_COVER_SHARE:
                continue
            inside = self.peaks[
                (self.peaks > self.edges[run[0]]) & (self.peaks < self.edges[run[-1] + 1])
            ]
            for peak in inside if len(inside) > 1 else ():  # both sides of a thin slab
                lower = overhead & (self.heights <= peak + NEAR_METRES)
                if self._cover(on_floor, lower) >= CEILING_COVER_SHARE:
                    return self._middle(self._at_height(peak))
            return self._uphill(int(run[-1]), -1)
        return None

    def highest(self, floor: float) -> float | None:
        """Return the height of the highest strong level that can be a ceiling above a floor; None if there is none."""
        above = self._above(floor)
        return self._uphill(int(above[-1]), -1) if len(above) else None

    def under_roof(self, floor: float) -> NDArray[np.bool_]:
        """Return which pieces, (p,) bool, are in ground plan cells that a roof covers high above a floor."""
        from scipy import ndimage

        x, y = self._plan
        is_high = self.heights >= floor + MIN_CEILING_METRES
        plan = np.zeros((int(x.max()) + 1, int(y.max()) + 1), bool)
        plan[x[is_high], y[is_high]] = True
        roof_cells = ndimage.binary_opening(plan, np.ones((MIN_ROOF_CELLS, MIN_ROOF_CELLS)))
        names, _ = ndimage.label(roof_cells)
        areas = np.bincount(names.ravel()) * self._cell_square_metres
        areas[0] = 0
        under: NDArray[np.bool_] = (areas >= MIN_ROOF_SQUARE_METRES)[names[x, y]]
        return under

    def _above(self, floor: float) -> NDArray[np.intp]:
        """Return the slices of strong levels at least MIN_CEILING_METRES above a floor."""
        return self.strong[self.edges[self.strong] >= floor + MIN_CEILING_METRES]

    def _lowest(self) -> int:
        """Return the slice of the lowest strong level that may be a floor.

        In a mesh of solids whose faces point outwards, it is the lowest level that faces up. Such a mesh faces down at
        its bottom and up at its top; other meshes may be inside out.
        """
        facing = self._facing[self.strong]
        top = np.flatnonzero(self.smooth >= STRONG_SHARE * self.min_area)[-1]
        if facing[0] > -FACING_SHARE or self._facing[top] < FACING_SHARE or not (facing > 0).any():
            return int(self.strong[0])
        return int(self.strong[np.argmax(facing > 0)])

    def _facing_shares(self, level: _Pieces, edges: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the upward minus the downward area near each slice, relative to their sum; 0 for a cloud."""
        if level.upward is None:
            return np.zeros(len(edges) - 1)
        net_area = np.histogram(level.centres[:, 2], edges, weights=level.areas * np.sign(level.upward))[0]  # fmt: skip
        return np.asarray(
            np.convolve(net_area, np.ones(3), "same") / np.maximum(self.smooth, 1e-12)
        )

    def _peaks(self, amounts: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the heights of the distinct strong peaks in metres, lowest first, to half a slice."""
        peaks: list[int] = []
        highest, valley = 0, 0.0
        rising = True
        for slice_, amount in enumerate([*amounts.tolist(), 0.0]):
            if rising and amount > amounts[highest]:
                highest = slice_
            elif rising and amount <= VALLEY_SHARE * amounts[highest]:
                peaks.append(highest)
                rising, valley = False, amount
            elif not rising:
                valley = min(valley, amount)
                if amount > 0 and VALLEY_SHARE * amount >= valley:
                    rising, highest = True, slice_
        strong = [peak for peak in peaks if self.smooth[peak] >= self.min_area]
        return np.asarray(self.edges[strong] + LEVEL_METRES / 2)

    def _top_of_slab(self, floor: float, top: float) -> float | None:
        """Return the next level above `floor` if the levels close above cover it, as a slab's top does; otherwise None."""
        lowest, highest = floor + NEAR_METRES, min(floor + MAX_SLAB_METRES, top - MIN_ROOM_METRES)
        peaks = self.peaks[(self.peaks > lowest) & (self.peaks <= highest)]
        at_peaks = (self._at_height(peak) & (self.heights > lowest) for peak in peaks)
        near = [pieces for pieces in at_peaks if pieces.any()]
        if not near:
            return None
        share = self._cover(self._at_height(floor), np.any(near, axis=0))
        return self._middle(near[0]) if share >= COVERED_SHARE else None

    def _cover(self, below: NDArray[np.bool_], above: NDArray[np.bool_]) -> float:
        """Return the share of the ground plan of the pieces `below` that the pieces `above` cover; both (p,) bool."""
        lower = np.setdiff1d(self._cells[below], self._walls)
        return float(np.isin(lower, self._cells[above]).mean()) if len(lower) else 0.0

    def _filled_cells(self) -> NDArray[np.int64]:
        """Return the ground plan cells that are filled over much of the height, as those of walls are."""
        columns = np.unique(np.stack([self._cells, self._slices]), axis=1)[0]
        cells, slices = np.unique(columns, return_counts=True)
        return cells[slices >= WALL_SHARE * (len(self.edges) - 1)]

    def _uphill(self, start: int, step: int) -> float:
        """Return the height of the nearest peak uphill from slice `start` in direction `step`."""
        peak, smooth = start, self.smooth
        while 0 <= peak + step < len(smooth) and smooth[peak + step] > smooth[peak]:
            peak += step
        return self._middle(self._at_height(float(self.edges[peak]) + LEVEL_METRES / 2))

    def _at_height(self, height: float) -> NDArray[np.bool_]:
        """Return which pieces are at a height, (p,) bool."""
        near: NDArray[np.bool_] = np.abs(self.heights - height) <= NEAR_METRES
        return near

    def _middle(self, mask: NDArray[np.bool_]) -> float:
        """Return the median height, by area, of the selected pieces, (p,) bool."""
        heights = self.heights[mask]
        order = np.argsort(heights, kind="stable")
        mass = np.cumsum(self.areas[mask][order], dtype=np.float64)
        middle = min(int(np.searchsorted(mass, mass[-1] / 2)), len(order) - 1)
        return float(heights[order][middle])
