"""Camera paths recorded with a scan: files of ScanNet, ScanNet++ and ARKitScenes, of COLMAP, nerfstudio and TUM, and poses.json."""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from render_agent.errors import SceneError
from render_agent.scans.camera import Camera, FloatArray
from render_agent.scans.formats.axis_alignment import SCAN_NAME, read_alignment
from render_agent.scans.formats.cleaning import upright_turn
from render_agent.scans.scene import Scene
from render_agent.util.safe_parse import parse_json, read_bounded

OUTSIDE_METRES = 0.5  # poses may be this far outside the bounds, which exclude outliers

CAMERAS = "cameras.txt"  # intrinsics of COLMAP's cameras, next to its poses
PINCAM = "lowres_wide_intrinsics/*.pincam"  # intrinsics of ARKitScenes; those of all frames are about equal

OPENGL = np.diag([1.0, -1.0, -1.0, 1.0])  # camera axes of OpenGL in those of OpenCV
# World axes of nerfstudio's files in those of COLMAP, if they do not state an `applied_transform`.
NERFSTUDIO = np.array([[0.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, -1, 0], [0, 0, 0, 1]])


class RecordedPose(NamedTuple):
    time: float  # orders the path; seconds, or the number of the frame
    matrix: FloatArray  # (4, 4), camera (OpenCV axes) to the frame of the scan file, in its unit
    image: str  # name of the frame's image without suffix


class Trajectory(NamedTuple):
    """A recorded camera path."""

    poses: Sequence[RecordedPose]
    tangents: tuple[float, float] | None = None
    """Tangents of half the horizontal and half the vertical field of view; None if they are not recorded."""


class PlacedPose(NamedTuple):
    """A recorded pose in the frame of a scene."""

    camera: Camera
    image: str
    time: float


def evenly(path: Sequence[PlacedPose], count: int) -> list[PlacedPose]:
    """Return at most `count` poses at even steps of time, the first and the last included, without repeated cameras."""
    times = np.array([pose.time for pose in path])
    wanted = np.linspace(times[0], times[-1], count)
    chosen = (path[int(np.abs(times - time).argmin())] for time in wanted)
    return [*{pose.camera: pose for pose in chosen}.values()]


def find_trajectory(scan: Path) -> Path | None:
    """Return the file or folder with the recorded path of a scan; None if there is none."""
    return next((path for path, _ in _candidates(scan) if path.exists()), None)


def trajectory_files(scan: Path) -> list[Path]:
    """Return the files that the recorded path of a scan is read from; empty if there is none."""
    path = find_trajectory(scan)
    if path is None:
        return []
    if path.is_dir():
        return sorted(path.glob("*.txt"))
    intrinsics = {"images.txt": CAMERAS, "lowres_wide.traj": PINCAM}.get(path.name)
    return [path, *(sorted(path.parent.glob(intrinsics))[:1] if intrinsics else ())]


def read_trajectory(scan: Path) -> Trajectory:
    """Read the recorded path of a scan. Raises SceneError if there is none or it is damaged."""
    for path, read in _candidates(scan):
        if path.exists():
            try:
                return read(path)
            except (
                OSError,
                ValueError,
                LookupError,
                TypeError,
                AttributeError,
                ArithmeticError,
                struct.error,
            ) as error:
                raise SceneError(
                    f"the camera path {path} cannot be read: {error!r}. Restore the file."
                ) from error
    raise SceneError(
        f"there is no recorded camera path for {scan}. Put {scan.stem}.poses.json next to it."
    )


def place_trajectory(
    trajectory: Trajectory,
    scene: Scene,
    camera: Camera,  # gives the vertical field of view if none was recorded
    aspect: float,  # width / height of the images
) -> tuple[list[PlacedPose], str]:
    """Return the poses that are in the scene, in order of time and without roll, and how many were dropped.

    Raises SceneError if none is in the scene.
    """
    alignment = None if scene.source is None else read_alignment(scene.source)
    frame = np.eye(4) if alignment is None else alignment
    turn = frame[:3, :3] @ upright_turn(scene.frame.up)
    if trajectory.tangents is not None:
        across, up = trajectory.tangents
        camera = replace(camera, vertical_fov=2 * math.degrees(math.atan(min(up, across / aspect))))
    low, high = scene.bounds + np.array([[-OUTSIDE_METRES], [OUTSIDE_METRES]])
    placed: list[PlacedPose] = []
    dropped: Counter[str] = Counter()
    for pose in sorted(trajectory.poses, key=lambda pose: pose.time):
        if not np.isfinite(pose.matrix).all():
            dropped["without a pose"] += 1
            continue
        position = turn @ pose.matrix[:3, 3] * scene.frame.metres + frame[:3, 3] - scene.origin
        x, y, z = (turn @ pose.matrix[:3, 2]).tolist()
        own = replace(
            camera,
            yaw=math.degrees(math.atan2(y, x)),
            pitch=math.degrees(math.atan2(z, math.hypot(x, y))),
        )
        own = own.at(position).mirrored(scene.mirrored_at)
        if own.position[2] < scene.floor:
            dropped["below the floor"] += 1
        elif not ((own.position >= low) & (own.position <= high)).all():
            dropped["outside the scan"] += 1
        else:
            placed.append(PlacedPose(own, pose.image, pose.time))
    reasons = ", ".join(f"{number:,} {reason}" for reason, number in sorted(dropped.items()))
    if not placed:
        raise SceneError(
            f"none of the {len(trajectory.poses)} recorded poses is in the scan {scene.source}"
            f" ({reasons}). Check that they have its frame and unit."
        )
    return placed, f"dropped {reasons}" if reasons else "none dropped"


def _candidates(scan: Path) -> Iterator[tuple[Path, Callable[[Path], Trajectory]]]:
    """Yield the places of a scan's path in order of preference, with their readers."""
    folder = scan.parent
    match = SCAN_NAME.fullmatch(scan.name)
    name = match["scene"] if match else scan.stem.removesuffix("_3dod_mesh")
    yield folder / f"{scan.stem}.poses.json", _read_json
    yield folder / f"{scan.stem}.trajectory.txt", _read_tum
    if match:
        yield folder / "pose", _read_pose_folder
        yield folder / f"{name}.sens", _read_sens
    for device in ("iphone", "dslr"):
        yield folder.parent / device / "colmap" / "images.txt", _read_colmap
        yield folder.parent / device / "nerfstudio" / "transforms.json", _read_json
    for place in (folder, folder / f"{name}_frames", folder / "lowres_wide"):
        yield place / "lowres_wide.traj", _read_arkit
    yield folder / "poses.json", _read_json
    yield folder / "transforms.json", _read_json
    yield folder / "trajectory.txt", _read_tum


def _read_json(path: Path) -> Trajectory:
    """Read `poses` with position, yaw and pitch or a matrix, or the `frames` of nerfstudio's transforms.json."""
    data: dict[str, Any] = parse_json(read_bounded(path))
    poses = []
    for number, entry in enumerate(data.get("poses", ())):
        if "matrix" in entry:
            matrix = np.array(entry["matrix"], float).reshape(4, 4)
        else:
            x, y, z = map(float, entry["position"])
            matrix = Camera((x, y, z), float(entry["yaw"]), float(entry.get("pitch", 0))).pose
        image = str(entry.get("image", number))
        poses.append(RecordedPose(float(entry.get("time", number)), matrix, Path(image).stem))
    applied = np.eye(4)
    if "applied_transform" in data:
        applied[:3] = np.array(data["applied_transform"], float)[:3]
    elif path.parent.name == "nerfstudio":
        applied = NERFSTUDIO
    frames = sorted(data.get("frames", ()), key=lambda frame: str(frame["file_path"]))
    for number, entry in enumerate(frames):
        matrix = np.array(entry["transform_matrix"], float).reshape(4, 4)
        placed = np.linalg.inv(applied) @ matrix @ OPENGL
        poses.append(RecordedPose(number, placed, Path(str(entry["file_path"])).stem))
    known = all(key in data for key in ("w", "h", "fl_x", "fl_y"))
    is_pinhole = "FISHEYE" not in str(data.get("camera_model", ""))
    return Trajectory(
        poses,
        _tangents(data["w"], data["h"], data["fl_x"], data["fl_y"])
        if known and is_pinhole
        else None,
    )


def _read_tum(path: Path) -> Trajectory:
    """Read lines of time, position and quaternion (x, y, z, w) of the camera in the scan."""
    from scipy.spatial.transform import Rotation

    rows = (
        (row, _matrix(Rotation.from_quat(row[4:8]), row[1:4]), name) for row, name in _rows(path)
    )
    return Trajectory([RecordedPose(row[0], matrix, name) for row, matrix, name in rows])


def _read_arkit(path: Path) -> Trajectory:
    """Read lines of time, axis-angle and translation, from world to camera."""
    from scipy.spatial.transform import Rotation

    rows = (
        (row, _matrix(Rotation.from_rotvec(row[1:4]), row[4:7]), name) for row, name in _rows(path)
    )
    poses = [RecordedPose(row[0], _inverse(matrix), name) for row, matrix, name in rows]
    intrinsics = next(iter(sorted(path.parent.glob(PINCAM))), None)
    return Trajectory(poses, None if intrinsics is None else _tangents(*np.loadtxt(intrinsics)[:4]))


def _read_colmap(path: Path) -> Trajectory:
    """Read every other line of images.txt: number, quaternion (w, x, y, z), translation, camera, name."""
    from scipy.spatial.transform import Rotation

    lines = [words for line in [*_lines(path)][::2] if (words := line.split())]
    poses = []
    for number, words in enumerate(sorted(lines, key=lambda words: words[9])):
        w, x, y, z, *shift = map(float, words[1:8])
        matrix = _matrix(Rotation.from_quat([x, y, z, w]), np.array(shift))
        poses.append(RecordedPose(number, _inverse(matrix), Path(words[9]).stem))
    _, model, *values = next(_lines(path.with_name(CAMERAS)), "").split()
    width, height, fx, *others = map(float, values)
    fy = others[0] if model in ("PINHOLE", "OPENCV", "FULL_OPENCV") else fx
    return Trajectory(poses, None if "FISHEYE" in model else _tangents(width, height, fx, fy))


def _read_pose_folder(path: Path) -> Trajectory:
    """Read the exported poses of ScanNet, pose/N.txt; the field of view is in SCENE.txt."""
    files = sorted(path.glob("*.txt"), key=lambda file: int(file.stem))
    poses = [
        RecordedPose(int(file.stem), np.loadtxt(file).reshape(4, 4), file.stem) for file in files
    ]
    facts: dict[str, str] = {}
    for file in path.parent.glob("scene*.txt"):
        facts |= re.findall(r"^(\w+) = ([\d.]+)\s*$", file.read_text("utf-8", "replace"), re.M)
    names = ("colorWidth", "colorHeight", "fx_color", "fy_color")
    known = all(name in facts for name in names)
    return Trajectory(poses, _tangents(*(float(facts[name]) for name in names)) if known else None)


def _read_sens(path: Path) -> Trajectory:
    """Read the poses of ScanNet's .sens (version 4), and skip its images."""
    with path.open("rb") as file:

        def read(layout: str) -> tuple[Any, ...]:
            return struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}")))

        version, length = read("IQ")
        if version != 4:
            raise ValueError(f"version {version} of .sens is not supported")
        file.seek(length, 1)
        intrinsics = read("16f")
        file.seek(3 * 64 + 8, 1)
        width, height, _, _, _, count = read("IIIIfQ")
        poses = []
        for number in range(count):
            *matrix, _, _, colour_bytes, depth_bytes = read("16f4Q")
            poses.append(RecordedPose(number, np.array(matrix).reshape(4, 4), str(number)))
            file.seek(colour_bytes + depth_bytes, 1)
    return Trajectory(poses, _tangents(width, height, intrinsics[0], intrinsics[5]))


def _lines(path: Path) -> Iterator[str]:
    lines = read_bounded(path).decode("utf-8-sig", "replace").splitlines()
    return (line for line in lines if not line.startswith("#"))


def _rows(path: Path) -> Iterator[tuple[FloatArray, str]]:
    """Yield the numbers of each line, and the first of them as written."""
    for words in map(str.split, _lines(path)):
        if words:
            yield np.array(words, float), words[0]


def _matrix(turn: Any, shift: FloatArray) -> FloatArray:
    """Return the transform of a scipy `Rotation` followed by a shift, (4, 4)."""
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = turn.as_matrix(), shift
    return matrix


def _inverse(matrix: FloatArray) -> FloatArray:
    inverse: FloatArray = np.linalg.inv(matrix).astype(np.float64)
    return inverse


def _tangents(width: float, height: float, fx: float, fy: float) -> tuple[float, float]:
    return float(width / (2 * fx)), float(height / (2 * fy))
