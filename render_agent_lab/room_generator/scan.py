"""Makes a perfect surface look scanned: noise, holes, unseen patches, colour drift, soft edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.boxes import Array
from render_agent_lab.room_generator.build import Home
from render_agent_lab.room_generator.floor_plan.walkway import CLEARANCE, Walkway, is_obstacle
from render_agent_lab.room_generator.light import VOXEL, Space
from render_agent_lab.room_generator.paint import noise
from render_agent_lab.room_generator.shapes import Mesh

STOPS = 10  # scanner positions per room
REACH = 4.5  # metres, range of the scanner
WELD = 0.002  # metres below which vertices are merged


def simulate_scan(home: Home, rng: np.random.Generator) -> Mesh:
    """Return the surface of a home as a hand-held scanner would capture it, metres, z up.

    Surface that cannot be seen from any of a few positions on the floor is missing, and so are random patches,
    especially of glass. Edges are rounded, vertices are displaced by millimetres, and the whole surface is bent by
    about a centimetre.
    """
    mesh = home.mesh
    seen = _visible_vertices(mesh, _scanner_positions(home, rng))
    patches = noise(mesh.points, 0.35, int(rng.integers(1 << 30)))
    glass = _inside_items(home, mesh.points, ("window", "mirror", "tv"))
    keep = seen & (patches > 0.13) & ~(glass & (patches > 0.6))
    mesh = _keep_faces(mesh, keep)
    mesh = _weld(mesh)
    mesh = Mesh(_soften(mesh, mesh.points), _soften(mesh, mesh.colours), mesh.faces)
    return Mesh(_displace(mesh, rng), _drift_colours(mesh, rng), mesh.faces)


def _scanner_positions(home: Home, rng: np.random.Generator) -> Array:
    """Return scanner positions, (n, 3) metres, on the free floor of every room at hand height."""
    walkway = Walkway(home.plan.rooms, home.plan.ways)
    for item in home.items:
        if is_obstacle(item.box, item.built.kind, item.support is not None):
            walkway.free = walkway.without(item.box)
    places = []
    for number in range(STOPS * len(home.plan.rooms)):
        room = walkway.rooms[number % len(home.plan.rooms)]
        spots = walkway.centres[walkway.free[CLEARANCE] & room]
        if len(spots):
            spot = spots[int(rng.integers(len(spots)))]
            places.append((*spot, float(rng.uniform(1.2, 1.7))))
    return np.array(places)


def _visible_vertices(mesh: Mesh, positions: Array) -> NDArray[np.bool_]:
    space = Space(mesh)
    normals = mesh.normals
    start = mesh.points + 1.3 * VOXEL * normals
    seen = np.zeros(len(start), bool)
    for position in positions:
        direction = position - start
        distance = np.linalg.norm(direction, axis=1)
        direction /= distance[:, None]
        index = np.flatnonzero(~seen & (distance < REACH) & ((direction * normals).sum(1) > 0.12))
        seen[index] = space.open_way(start[index], direction[index], distance[index])
    for _ in range(2):  # the rays are coarse, so the surface between seen points counts as seen
        shown = seen[mesh.faces].any(1)
        seen[mesh.faces[shown]] = True
    return seen


def _inside_items(home: Home, points: Array, kinds: tuple[str, ...]) -> NDArray[np.bool_]:
    inside = np.zeros(len(points), bool)
    for item in home.items:
        if item.built.kind in kinds:
            box = item.box.grown(0.01)
            inside |= (np.abs(box.local(points)) < box.size / 2).all(1)
    return inside


def _keep_faces(mesh: Mesh, keep: NDArray[np.bool_]) -> Mesh:
    faces = mesh.faces[keep[mesh.faces].all(1)]
    used, index = np.unique(faces, return_inverse=True)
    return Mesh(mesh.points[used], mesh.colours[used], index.reshape(-1, 3))


def _weld(mesh: Mesh) -> Mesh:
    """Return the surface with coincident vertices merged, as in fused scans."""
    cells = np.floor(mesh.points / WELD + 0.37).astype(np.int64)
    _, first, index = np.unique(cells, axis=0, return_index=True, return_inverse=True)
    faces = index.reshape(-1)[mesh.faces]
    whole = (
        (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    )
    return Mesh(mesh.points[first], mesh.colours[first], faces[whole])


def _soften(mesh: Mesh, values: Array) -> Array:
    """Move values (n, k) a third of the way to the mean of their neighbours."""
    total, count = np.zeros_like(values), np.zeros(len(values))
    mesh.add_neighbours(values, total, count)
    mean = total / np.maximum(count, 1)[:, None]
    return np.where(count[:, None] > 0, values * 0.67 + mean * 0.33, values)


def _displace(mesh: Mesh, rng: np.random.Generator) -> Array:
    """Displace points by millimetres each, and by about a centimetre over the length of a room."""
    bend = [noise(mesh.points, 2.5, int(rng.integers(1 << 30))) - 0.5 for _ in range(3)]
    # low-frequency, so that coarse parts follow and thin layers keep their order
    bumps = noise(mesh.points, 0.6, int(rng.integers(1 << 30))) - 0.5
    jitter = rng.normal(0, 0.0006, mesh.points.shape)
    shaken: Array = mesh.points + 0.025 * np.stack(bend, 1) + 0.012 * bumps[:, None] * mesh.normals
    return shaken + jitter


def _drift_colours(mesh: Mesh, rng: np.random.Generator) -> Array:
    """Vary brightness and warmth of the colours from place to place, with a little grain."""
    bright = 0.88 + 0.24 * noise(mesh.points, 1.2, int(rng.integers(1 << 30)))
    warm = 0.12 * (noise(mesh.points, 1.8, int(rng.integers(1 << 30))) - 0.5)
    tint = np.stack([1 + warm, np.ones_like(warm), 1 - warm], 1)
    grain = rng.normal(0, 0.012, mesh.colours.shape)
    return np.clip(mesh.colours * bright[:, None] * tint + grain, 0, 1)
