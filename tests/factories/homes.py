"""Generated homes of several kinds, built once per session."""

import json
import os
import pickle

import numpy as np
from filelock import FileLock
from scipy.spatial import cKDTree

from render_agent import bundled_rooms
from render_agent_lab.room_generator.build import build_home
from render_agent_lab.room_generator.write import ground_truth_of

# Vertex spacing in metres; coarser than usual, everything else is the same.
COARSE = 0.3

# (seed, number) of each home; building one takes seconds.
HOMES = [(5, number) for number in range(4)]


def build_homes(folders):
    """Return homes by (seed, number); `folders` is pytest's tmp_path_factory, whose parent is shared by workers."""
    folder = folders.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    file = folder / "homes.pickle"
    with FileLock(folder / "homes.lock"):
        if not file.exists():
            built = {(seed, n): build_home(seed, n, COARSE) for seed, n in HOMES}
            file.write_bytes(pickle.dumps(built))
    return pickle.loads(file.read_bytes())


def truths_of(homes):
    """Return the ground truths of homes by (seed, number)."""
    return {key: ground_truth_of(home, f"home{key[0]}-{key[1]}") for key, home in homes.items()}


def write_own_scans(folder, names):
    """Link bundled rooms into a folder with nothing but boxes beside them; return the scans."""
    scans = []
    for name in names:
        path = bundled_rooms()[name]
        objects = json.loads(path.with_suffix(".json").read_text())["object_bbox"]
        boxes = [
            {
                "label": label,
                "center": box["centroid"],
                "size": box["axesLengths"],
                "yaw": float(np.degrees(np.arctan2(*box["normalizedAxes"][1::-1]))),
            }
            for label, group in objects.items()
            for box in group
        ]
        scans.append(folder / path.name)
        scans[-1].symlink_to(path.resolve())
        (folder / f"{name}.boxes.json").write_text(json.dumps(boxes), "utf-8")
    return scans


def free_floor(truth, clearance=0.2, cell=0.05):
    """Return the centres of floor cells, (rows, columns, 2) metres, and a mask of the free ones.

    Free cells are at least `clearance` from walls and from everything lower than 1.9 m.
    """
    corners = np.concatenate([room.corners for room in truth.rooms])
    low, high = corners.min(0) - 0.1, corners.max(0) + 0.1
    shape = np.ceil((high - low) / cell).astype(int)
    grid = np.stack(np.meshgrid(*(np.arange(n) for n in shape), indexing="ij"), -1)
    centres = low + (grid + 0.5) * cell
    points = centres.reshape(-1, 2)
    floor = np.any([room.holds(points) for room in truth.rooms], 0)
    for a, b, c, d in truth.ways:
        floor |= ((points > (a, b)) & (points < (c, d))).all(1)
    walls = cKDTree(points[~floor])
    free = floor & (walls.query(points)[0] - cell / 2 >= clearance)
    for thing in truth.objects:
        is_obstacle = thing.box.bounds[0, 2] < 1.9 and thing.support is None
        if is_obstacle and thing.kind not in ("rug", "curtain"):
            free &= footprint_distance(thing, points) >= clearance
    return centres, free.reshape(shape)


def flood(free, start):
    """Return a mask of the free cells that are connected to a start cell."""
    reached, pending = np.zeros_like(free), [start]
    reached[start] = True
    while pending:
        x, y = pending.pop()
        for cell in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
            if free[cell] and not reached[cell]:
                reached[cell] = True
                pending.append(cell)
    return reached


def footprint_distance(thing, points):
    """Return the distances of points, (n, 2), from an object's footprint, (n,) metres."""
    beyond = np.abs((points - thing.centre[:2]) @ thing.axes[:2, :2].T) - thing.size[:2] / 2
    return np.linalg.norm(np.maximum(beyond, 0), axis=1)
