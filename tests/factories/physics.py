"""An independent check of edited rooms: what a changed object touches and rests on, by casting rays at the mesh.

It shares no code with the program's own search for free places: an object intersects another if an edge of one crosses
a face of the other, or if it is inside.
"""

import numpy as np

from render_agent.scans.edits import ObjectParts, edit_scene
from render_agent.tasks.boxes.room_ground_truth import read_ground_truth
from render_agent.tasks.ground_truth import load_facts

LIFT_METRES = 0.01  # raised by this much, an object that rests on something touches nothing
SUPPORT_METRES = 0.02  # largest gap to what is below, as documented
BOTTOM_METRES = 0.005  # vertices within this height of the lowest one are the bottom


def ray_scene(triangles):
    """Return an Open3D scene of triangles, (n, 3, 3)."""
    import open3d  # takes a second, which only some test processes need

    scene = open3d.t.geometry.RaycastingScene(nthreads=1)
    corners = np.ascontiguousarray(triangles.reshape(-1, 3), np.float32)
    scene.add_triangles(corners, np.arange(len(corners), dtype=np.uint32).reshape(-1, 3))
    return scene


def count_crossings(first, second):
    """Return how many edges of `first` cross a face of `second`; both are triangles, (n, 3, 3)."""
    low, high = second.reshape(-1, 3).min(0), second.reshape(-1, 3).max(0)
    edges = np.concatenate([first[:, [i, (i + 1) % 3]] for i in range(3)])
    edges = edges[((edges.max(1) >= low) & (edges.min(1) <= high)).all(1)]
    rays = np.concatenate([edges[:, 0], edges[:, 1] - edges[:, 0]], 1).astype(np.float32)
    return int((ray_scene(second).cast_rays(rays)["t_hit"].numpy() <= 1).sum()) if len(rays) else 0


def is_inside(points, triangles):
    """Return which points are inside a closed surface: most of three rays cross it an odd number of times."""
    scene, votes = ray_scene(triangles), np.zeros(len(points), int)
    for direction in ((0.31, 0.17, 0.93), (-0.83, 0.29, 0.47), (0.12, -0.96, 0.25)):
        rays = np.column_stack([points, np.tile(direction, (len(points), 1))]).astype(np.float32)
        votes += scene.count_intersections(rays).numpy() % 2
    return votes >= 2


def gaps_below(points, triangles, reach=0.05):
    """Return the gaps in metres between points and the surface below them; negative if they are below it."""
    starts = points + np.array([0, 0, reach])
    rays = np.column_stack([starts, np.tile((0, 0, -1), (len(points), 1))])
    return ray_scene(triangles).cast_rays(rays.astype(np.float32))["t_hit"].numpy() - reach


def bottom(vertices):
    """Return the vertices at the bottom of an object."""
    return vertices[vertices[:, 2] <= vertices[:, 2].min() + BOTTOM_METRES]


class RoomPhysics:
    """Checks edits of one room."""

    def __init__(self, scene, question):
        self.scene = scene
        self.boxes = load_facts([question])[question.scene].boxes
        self.parts = ObjectParts(scene, self.boxes).things
        truth = read_ground_truth(question.scan.with_suffix(".json"))
        self.rooms, self.ways = truth.rooms, np.array(truth.ways).reshape(-1, 2, 2)

    def faults(self, edits):
        """Return what is physically wrong in the edited room, as a list of sentences."""
        edited = edit_scene(self.scene, self.boxes, edits)
        points, faces = edited.points.astype(float), edited.faces
        placed, gone = {}, set()
        for edit in edits:
            key = edit.label, edit.index
            if edit.verb == "copy":
                number = len(self.scene.points)
                placed[f"copy of {key}"] = np.arange(number, number + len(self.parts[key]))
            else:
                gone.add(key)
                if edit.verb == "transform":
                    placed[key] = self.parts[key]
        wrong = [f"{name} {fault}" for name, own in placed.items() for fault in self._faults_of(points, faces, own)]  # fmt: skip
        return wrong + [f"{key} lost its support" for key in self._unsupported(points, faces, gone)]

    def _faults_of(self, points, faces, vertices):
        own = np.zeros(len(points), bool)
        own[vertices] = True
        others = points[faces[~own[faces].any(1)]]
        at, lifted = points[vertices], points[faces[own[faces].all(1)]] + np.array([0, 0, LIFT_METRES])  # fmt: skip
        if count := count_crossings(lifted, others) + count_crossings(others, lifted):
            yield f"is crossed at {count} edges"
        low, high = at.min(0), at.max(0)
        for key, part in self.parts.items():
            body = points[faces[np.isin(faces, part).all(1)]]
            is_near = (body.max((0, 1)) > low).all() and (body.min((0, 1)) < high).all() if len(body) else False  # fmt: skip
            if is_near and not own[part].any() and is_inside(lifted.reshape(-1, 3), body).any():
                yield f"is inside {key}"
        plan = at[:, :2]
        passages = [((plan >= low) & (plan <= high)).all(1) for low, high in self.ways]
        if not np.any([room.holds(plan) for room in self.rooms] + passages, axis=0).all():
            yield "is outside of the rooms"
        gaps = gaps_below(bottom(at), others)
        if np.abs(gaps).max() > SUPPORT_METRES:
            yield f"is {gaps.min():.3f} to {gaps.max():.3f} m above what is below"

    def _unsupported(self, points, faces, gone):
        """Yield the objects that rested on something before the edit but not after it."""
        removed = [self.scene.points[self.parts[key]] for key in gone]
        for key, part in self.parts.items():
            below = bottom(self.scene.points[part].astype(float))
            below = below[:: max(1, len(below) // 12)]
            is_near = any((below.max(0) > old.min(0) - 0.05).all() and (below.min(0) < old.max(0) + 0.05).all() for old in removed)  # fmt: skip
            if key in gone or not is_near:
                continue
            own = np.zeros(len(points), bool)
            own[part] = True
            old_faces = self.scene.faces[~own[self.scene.faces].any(1)]
            before = gaps_below(below, self.scene.points[old_faces])
            after = gaps_below(below, points[faces[~own[faces].any(1)]])
            if ((np.abs(before) <= SUPPORT_METRES) & (np.abs(after) > SUPPORT_METRES)).any():
                yield key
