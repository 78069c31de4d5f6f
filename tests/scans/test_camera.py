"""Camera conventions: poses, movements and projections."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from render_agent.errors import UsageError
from render_agent.scans.camera import (
    MAX_PITCH,
    AnyCamera,
    Camera,
    MapCamera,
    vertical_from_horizontal,
    wrap_degrees,
)
from render_agent.util.safe_parse import convert, to_plain

angles = st.floats(-720, 720)
metres = st.floats(-50, 50)
pitches = st.floats(-MAX_PITCH, MAX_PITCH)
poses = st.builds(
    Camera, st.tuples(metres, metres, metres), st.floats(-180, 179.9), pitches, st.floats(20, 100)
)


@pytest.mark.parametrize(
    "values",
    [
        {"position": (math.nan, 0, 0)},
        {"yaw": math.inf},
        {"pitch": 1e9},
        {"pitch": math.nan},
        {"vertical_fov": 0},
        {"vertical_fov": math.nan},
    ],
)
def test_invalid_camera_is_refused(values):
    with pytest.raises(UsageError, match=next(iter(values))):
        Camera(**{"position": (0, 0, 0)} | values)


@given(poses)
def test_pose_is_a_rotation_without_roll(camera):
    rotation = camera.pose[:3, :3]
    assert np.allclose(rotation @ rotation.T, np.eye(3), atol=1e-12)
    assert np.isclose(np.linalg.det(rotation), 1)
    assert rotation[2, 0] == 0, "the image's horizontal axis is level: no roll"
    assert rotation[2, 1] < 0, "the image's vertical axis points down"


@pytest.mark.parametrize(
    ("yaw", "ahead", "right"),
    [(0, (1, 0, 0), (0, -1, 0)), (90, (0, 1, 0), (1, 0, 0)), (180, (-1, 0, 0), (0, 1, 0))],
)
def test_yaw_is_counter_clockwise_from_x(yaw, ahead, right):
    camera = Camera((0, 0, 0), yaw)
    assert np.allclose(camera.forward, ahead)
    assert np.allclose(camera.pose[:3, 0], right)


@given(poses, angles)
def test_turning_left_looks_left(camera, angle):
    ahead = camera.at((0, 0, 0)).turned(up=-camera.pitch)
    left = ahead.turned(left=90).forward
    pixels, depths = ahead.project([ahead.forward + 0.3 * left], 640, 480)
    assert depths[0] > 0
    assert pixels[0, 0] < 320
    assert np.allclose(ahead.offset(0, 1, 0), left)
    assert math.isclose(math.cos(math.radians(wrap_degrees(angle) - angle)), 1)


@given(poses, st.floats(-180, 180), metres, metres, metres)
def test_opposite_moves_cancel_out(camera, angle, forward, left, up):
    turned = camera.turned(angle)
    moved = turned.at(np.asarray(turned.position) + turned.offset(forward, left, up))
    back = moved.at(np.asarray(moved.position) + moved.offset(-forward, -left, -up)).turned(-angle)
    assert np.allclose(back.position, camera.position, atol=1e-9)
    assert abs(wrap_degrees(back.yaw - camera.yaw)) < 1e-9
    assert back.pitch == camera.pitch


@given(poses, st.tuples(metres, metres, metres))
def test_looking_at_a_point_centres_it(camera, point):
    offset = np.subtract(point, camera.position)
    level = math.hypot(*offset[:2])
    if level < 0.1 or abs(math.degrees(math.atan2(offset[2], level))) > MAX_PITCH:
        return
    pixels, depths = camera.looking_at(point).project([point], 640, 480)
    assert depths[0] > 0
    assert np.allclose(pixels[0], (320, 240), atol=1e-3)


@given(poses, angles)
def test_pitch_is_limited(camera, up):
    assert abs(camera.turned(up=up).pitch) <= MAX_PITCH


@given(poses, st.tuples(metres, metres, metres))
def test_projection_agrees_with_pose_and_intrinsics(camera, point):
    pixels, depths = camera.project([point], 640, 480)
    local = np.linalg.inv(camera.pose) @ [*point, 1]
    assert np.isclose(local[2], depths[0], atol=1e-9)
    if local[2] < 0.01:
        return
    u, v, w = camera.intrinsics(640, 480) @ local[:3]
    assert np.allclose(pixels[0], (u / w, v / w), rtol=1e-6, atol=1e-6)


def test_points_behind_the_camera_have_no_pixel():
    pixels, depths = Camera((0, 0, 0)).project([(-1, 0, 0)], 64, 48)
    assert depths[0] == -1
    assert np.isnan(pixels[0]).all()


def test_field_of_view_reaches_the_image_edges():
    camera = Camera((0, 0, 0), vertical_fov=vertical_from_horizontal(75, 640, 480))
    edge = np.array([1, math.tan(math.radians(37.5)), 0])
    assert np.isclose(camera.project([edge], 640, 480)[0][0, 0], 0)
    assert np.isclose(camera.horizontal_fov(640, 480), 75)


def test_map_camera_has_x_right_and_y_up():
    camera = MapCamera((2, 3), 2.0, 0.01)
    pixels, depths = camera.project([(2, 3, 0), (3, 3, 0), (2, 4, 1), (2, 3, 2.5)], 640, 480)
    assert np.allclose(pixels, [(320, 240), (420, 240), (320, 140), (320, 240)])
    assert np.allclose(depths, [2, 2, 1, -0.5])


@given(poses)
def test_camera_round_trips_through_json(camera):
    assert convert(to_plain(camera), AnyCamera) == camera


def test_map_camera_round_trips_through_json():
    camera = MapCamera((0.1, -3.7), 2.05, 0.0123)
    assert convert(to_plain(camera), AnyCamera) == camera
