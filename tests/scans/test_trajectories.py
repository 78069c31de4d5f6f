"""Recorded camera paths: every format gives the same cameras, and poses outside the scan are dropped and counted."""

import json
import math
import struct

import numpy as np
import pytest
from conftest import test_data
from factories.scenes import room, write_ply
from scipy.spatial.transform import Rotation

from render_agent.errors import SceneError
from render_agent.scans.camera import Camera
from render_agent.scans.formats.load import load_scene
from render_agent.scans.formats.readers import SCAN_SUFFIXES
from render_agent.scans.trajectories import (
    NERFSTUDIO,
    OPENGL,
    evenly,
    find_trajectory,
    place_trajectory,
    read_trajectory,
    trajectory_files,
)

START = Camera((0.0, 0.0, 0.0))
CAMERAS = [
    Camera((1.0, 1.0, 1.5), 30.0, -10.0),
    Camera((2.0, 1.5, 1.2), -120.0, 20.0),
    Camera((1.5, 2.5, 1.6), 175.0, 0.0),
]
WIDTH, HEIGHT, FX, FY = 640, 480, 500.0, 505.0


def quaternion(matrix):
    return Rotation.from_matrix(matrix[:3, :3]).as_quat()


def write_rows(path, rows, head="# a comment\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(head + "".join(" ".join(map(str, row)) + "\n" for row in rows))


def write_json(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data))


def own_json(scan, poses):
    entries = [
        {"position": c.position, "yaw": c.yaw, "pitch": c.pitch, "time": n}
        for n, c in enumerate(CAMERAS)
    ]
    write_json(scan.with_name("room.poses.json"), {"poses": entries[::-1]})


def matrix_json(scan, poses):
    write_json(
        scan.with_name("poses.json"), {"poses": [{"matrix": pose.tolist()} for pose in poses]}
    )


def tum(scan, poses):
    rows = [(n / 10, *pose[:3, 3], *quaternion(pose)) for n, pose in enumerate(poses)]
    write_rows(scan.with_name("room.trajectory.txt"), rows)


def arkit(scan, poses):
    inverses = map(np.linalg.inv, poses)
    rows = [
        (n / 10, *Rotation.from_matrix(m[:3, :3]).as_rotvec(), *m[:3, 3])
        for n, m in enumerate(inverses)
    ]
    write_rows(scan.parent / "room_frames" / "lowres_wide.traj", rows, "")
    write_rows(
        scan.parent / "room_frames" / "lowres_wide_intrinsics" / "0.pincam",
        [(WIDTH, HEIGHT, FX, FY, 320, 240)],
        "",
    )


def colmap(scan, poses):
    lines = []
    for n, m in enumerate(map(np.linalg.inv, poses)):
        x, y, z, w = quaternion(m)
        lines += [(n + 1, w, x, y, z, *m[:3, 3], 1, f"frame_{n:06}.jpg"), ("1", "2", "-1")]
    folder = scan.parent.parent / "iphone" / "colmap"
    write_rows(folder / "images.txt", lines, "# a\n# b\n")
    write_rows(folder / "cameras.txt", [(1, "PINHOLE", WIDTH, HEIGHT, FX, FY, 320, 240)])


def nerfstudio(scan, poses, **more):
    frames = [
        {
            "file_path": f"images/{n:05}.jpg",
            "transform_matrix": (NERFSTUDIO @ pose @ OPENGL).tolist(),
        }
        for n, pose in enumerate(poses)
    ]
    intrinsics = {"w": WIDTH, "h": HEIGHT, "fl_x": FX, "fl_y": FY}
    file = scan.parent.parent / "dslr" / "nerfstudio" / "transforms.json"
    write_json(file, {"frames": frames[::-1], **intrinsics, **more})


def nerfstudio_applied(scan, poses):
    nerfstudio(scan, poses, applied_transform=NERFSTUDIO[:3].tolist())


def pose_folder(scan, poses):
    for number, pose in enumerate(poses):
        write_rows(scan.parent / "pose" / f"{number}.txt", pose, "")


def sens(scan, poses):
    name = b"StructureSensor"
    intrinsics = np.diag([FX, FY, 1, 1]).ravel()
    head = struct.pack(f"<IQ{len(name)}s16f", 4, len(name), name, *intrinsics)
    head += bytes(3 * 64) + struct.pack("<iiIIIIfQ", 2, 1, WIDTH, HEIGHT, 8, 6, 1000.0, len(poses))
    frames = [struct.pack("<16f4Q", *pose.ravel(), 7, 8, 3, 5) + b"jpgdepth" for pose in poses]
    scan.with_name("scene0000_00.sens").write_bytes(head + b"".join(frames))


def cameras_of(scan, aspect=4 / 3):
    scene = load_scene(scan)
    path, dropped = place_trajectory(read_trajectory(scan), scene, START, aspect)
    return [pose.camera for pose in path], dropped, scene


def assert_same(placed, scene, cameras=CAMERAS):
    for camera, expected in zip(placed, cameras, strict=True):
        np.testing.assert_allclose(
            np.add(camera.position, scene.origin), expected.position, atol=1e-5
        )
        assert math.isclose(camera.pitch, expected.pitch, abs_tol=1e-4)
        assert math.isclose((camera.yaw - expected.yaw + 180) % 360, 180, abs_tol=1e-4)


def make_scan(tmp_path, name="room.ply"):
    folder = tmp_path / "scans"
    folder.mkdir()
    write_ply(folder / name, *room())
    return folder / name


@pytest.mark.parametrize(
    "write", [own_json, matrix_json, tum, arkit, colmap, nerfstudio, nerfstudio_applied]
)
def test_every_format_gives_the_same_cameras(tmp_path, write):
    scan = make_scan(tmp_path)
    assert find_trajectory(scan) is None
    write(scan, [camera.pose for camera in CAMERAS])
    placed, dropped, scene = cameras_of(scan)
    assert_same(placed, scene)
    assert dropped == "none dropped"
    if write in (arkit, colmap, nerfstudio, nerfstudio_applied):
        assert placed[0].vertical_fov == pytest.approx(2 * math.degrees(math.atan(HEIGHT / 2 / FY)))
        wide = cameras_of(scan, aspect=2)[0][0]  # cropped above and below
        assert wide.vertical_fov == pytest.approx(2 * math.degrees(math.atan(WIDTH / 2 / FX / 2)))
    else:
        assert placed[0].vertical_fov == START.vertical_fov


@pytest.mark.parametrize("write", [pose_folder, sens])
def test_poses_of_scannet_are_aligned_like_the_scan(tmp_path, write):
    scan = make_scan(tmp_path, "scene0000_00_vh_clean_2.ply")
    turn = Rotation.from_euler("z", 90, degrees=True).as_matrix()
    align = np.eye(4)
    align[:3, :3], align[:3, 3] = turn, (3.0, 0.5, 0.0)
    values = " ".join(map(str, align.ravel()))
    facts = f"axisAlignment = {values}\ncolorHeight = {HEIGHT}\ncolorWidth = {WIDTH}\nfx_color = {FX}\nfy_color = {FY}\n"
    scan.with_name("scene0000_00.txt").write_text(facts)
    write(scan, [camera.pose for camera in CAMERAS])
    placed, _, scene = cameras_of(scan)
    expected = [
        Camera(tuple(turn @ camera.position + align[:3, 3]), camera.yaw + 90, camera.pitch)
        for camera in CAMERAS
    ]
    assert_same(placed, scene, expected)
    assert placed[0].vertical_fov == pytest.approx(
        2 * math.degrees(math.atan(HEIGHT / 2 / FY)), abs=1e-4
    )


def test_poses_outside_the_scan_are_dropped_and_counted(tmp_path):
    scan = make_scan(tmp_path)
    poses = [camera.pose for camera in CAMERAS]
    lost, beside, below = np.full((4, 4), -np.inf), poses[0].copy(), poses[0].copy()
    beside[0, 3], below[2, 3] = 50, -1
    pose_entries = [*poses, lost, beside, beside, below]
    tum(scan, [pose for pose in pose_entries if np.isfinite(pose).all()])
    placed, dropped, scene = cameras_of(scan)
    assert_same(placed, scene)
    assert dropped == "dropped 1 below the floor, 2 outside the scan"
    tum(scan, [beside, below])
    with pytest.raises(SceneError, match="none of the 2 recorded poses"):
        cameras_of(scan)


def test_invalid_poses_of_scannet_are_dropped(tmp_path):
    scan = make_scan(tmp_path, "scene0000_00_vh_clean_2.ply")
    pose_folder(scan, [CAMERAS[0].pose, np.full((4, 4), -np.inf)])
    assert cameras_of(scan)[1] == "dropped 1 without a pose"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        '{"poses": [{"yaw": 3}]}',
        '{"poses": 3}',
        "[]",
        '{"poses": [], "w": 640, "h": 480, "fl_x": 0, "fl_y": 500}',
        f'{{"poses": [{{"position": [0, 0, 0], "yaw": 0, "time": 1{"0" * 400}}}]}}',
    ],
)
def test_damaged_path_is_named(tmp_path, content):
    scan = make_scan(tmp_path)
    scan.with_name("room.poses.json").write_text(content)
    with pytest.raises(SceneError, match=r"room\.poses\.json"):
        read_trajectory(scan)


def test_path_without_intrinsics_of_colmap_is_named(tmp_path):
    scan = make_scan(tmp_path)
    colmap(scan, [camera.pose for camera in CAMERAS])
    images = find_trajectory(scan)
    images.with_name("cameras.txt").write_text("# no camera\n")
    with pytest.raises(SceneError, match=r"images\.txt"):
        read_trajectory(scan)


@pytest.mark.parametrize(
    ("write", "names"),
    [
        (colmap, ["images.txt", "cameras.txt"]),
        (arkit, ["lowres_wide.traj", "0.pincam"]),
        (tum, ["room.trajectory.txt"]),
    ],
)
def test_files_of_a_path_include_its_intrinsics(tmp_path, write, names):
    scan = make_scan(tmp_path)
    assert trajectory_files(scan) == []
    write(scan, [camera.pose for camera in CAMERAS])
    assert [file.name for file in trajectory_files(scan)] == names


@pytest.mark.parametrize("write", [own_json, tum])
def test_byte_order_mark_and_windows_line_ends_are_ignored(tmp_path, write):
    scan = make_scan(tmp_path)
    write(scan, [camera.pose for camera in CAMERAS])
    path = find_trajectory(scan)
    text = path.read_text().removeprefix("# a comment\n")
    path.write_bytes(text.replace("\n", "\r\n").encode("utf-8-sig"))
    placed, _, scene = cameras_of(scan)
    assert_same(placed, scene)


def test_no_view_is_shown_twice(tmp_path):
    scan = make_scan(tmp_path)
    own_json(scan, ())
    path, _ = place_trajectory(read_trajectory(scan), load_scene(scan), START, 1)
    assert evenly(path, 50) == path


def test_views_are_even_in_time(tmp_path):
    scan = make_scan(tmp_path)
    times = [0, 1, 2, 3, 4, 10]  # the camera rests before the last
    entries = [
        {"position": CAMERAS[0].position, "yaw": n, "time": time} for n, time in enumerate(times)
    ]
    write_json(scan.with_name("room.poses.json"), {"poses": entries})
    path, _ = place_trajectory(read_trajectory(scan), load_scene(scan), START, 1)
    shown = [[pose.time for pose in evenly(path, count)] for count in (1, 2, 3)]
    assert shown == [[0], [0, 10], [0, 4, 10]]


def test_real_paths_are_inside_their_scans():
    real_data = test_data()
    scans = [path for suffix in SCAN_SUFFIXES for path in real_data.rglob(f"*{suffix}")]
    recorded = [scan for scan in scans if find_trajectory(scan) is not None]
    if not recorded:
        pytest.skip(f"no scan below {real_data} has a recorded path")
    for scan in recorded:
        trajectory = read_trajectory(scan)
        path, _ = place_trajectory(trajectory, load_scene(scan), START, 4 / 3)
        assert len(path) > 0.5 * len(trajectory.poses)
