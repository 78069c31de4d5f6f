"""Records a walk through the free space of scans as `NAME.poses.json`, as a stand-in for the video of a data set.

python -m render_agent_lab.room_generator.recorded_walk scenes/room*.ply
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from render_agent.scans.camera import Camera, wrap_degrees
from render_agent.scans.formats.load import load_scene
from render_agent.scans.free_space.free_space import FreeSpace
from render_agent.scans.free_space.shortest_path import ShortestPaths
from render_agent.scans.scene import Scene
from render_agent.util.atomic_files import atomic_write
from render_agent.views.view_policies.tour import shortest_order

HEIGHT_METRES = 1.5  # of a hand-held camera
PITCH_DEGREES = -12.0
PLACES = 12  # at most, visited in turn
STEP_METRES, SECONDS = 0.1, 0.25  # per pose
SWEEP_DEGREES, SWEEP_POSES = (
    55.0,
    32,
)  # how far the camera swings to both sides, and the poses of a swing
TURN_DEGREES = 15.0  # per pose at most


def walk(scene: Scene) -> list[Camera]:
    """Return the poses of a walk between places far apart, looking at what lies open around the camera."""
    space = FreeSpace.of(scene)
    start, *others = (
        Camera((x, y, z)) for x, y, z in space.start_places(PLACES, HEIGHT_METRES).tolist()
    )
    places = [start, *shortest_order(start, others)]
    positions = [np.array(start.position)]
    for place in places[1:]:
        path = ShortestPaths(space, place.position).waypoints(tuple(positions[-1]))
        for begin, end in pairwise([] if path is None else path):
            steps = max(1, math.ceil(float(np.linalg.norm(end - begin)) / STEP_METRES))
            positions += [
                begin + share * (end - begin) for share in np.linspace(0, 1, 1 + steps)[1:]
            ]
    poses: list[Camera] = []
    heading = 0.0
    for number, position in enumerate(positions):
        offsets = (np.array(place.position) - position for place in places)
        open_ahead = [o for o in offsets if o.any() and space.advance(position, o)[1] is None]
        if open_ahead:
            x, y, _ = np.sum(open_ahead, axis=0)
            change = wrap_degrees(math.degrees(math.atan2(y, x)) - heading)
            heading += change if not poses else float(np.clip(change, -TURN_DEGREES, TURN_DEGREES))
        swing = SWEEP_DEGREES * math.sin(2 * math.pi * number / SWEEP_POSES)
        poses.append(
            Camera((0.0, 0.0, 0.0), wrap_degrees(heading + swing), PITCH_DEGREES).at(position)
        )
    return poses


def write_walk(scan: Path) -> Path:
    """Write the walk through a scan next to it; return the file."""
    scene = load_scene(scan)
    poses: Sequence[dict[str, object]] = [
        {
            "time": round(SECONDS * number, 2),
            "position": [
                round(value, 3) for value in np.add(camera.position, scene.origin).tolist()
            ],
            "yaw": round(camera.yaw, 1),
            "pitch": camera.pitch,
        }
        for number, camera in enumerate(walk(scene))
    ]
    file = scan.with_name(f"{scan.stem}.poses.json")
    lines = ",\n".join(json.dumps(pose) for pose in poses)
    atomic_write(file, f'{{"poses": [\n{lines}\n]}}\n'.encode())
    return file


if __name__ == "__main__":
    for name in sys.argv[1:]:
        write_walk(Path(name))
