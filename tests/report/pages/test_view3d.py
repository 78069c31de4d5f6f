"""Tests of the 3D view: scene files, and rendering in a browser."""

import base64
import json
import re
import zlib
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from conftest import with_timeout
from factories.pages import WIDTHS_AND_SCHEMES, assert_accessible, set_window
from factories.reports import build_index, run_rooms
from PIL import Image
from scipy.spatial.transform import Rotation

from render_agent.dialogue.chat import View
from render_agent.render.around import direction_of, draw_around
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.pages.view3d import page_data, scene_file
from render_agent.report.pages.view3d.scene_file import MAX_FACES, coarser, scene_script
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera
from render_agent.scans.gaussians import Gaussians
from render_agent.scans.scene import Scene
from render_agent.util.web.templates import ASSETS


def scene_of(points, colours, faces):
    """Return a scene with these arrays."""
    bounds = np.array([points.min(0), points.max(0)], np.float64)
    return Scene("made", points, colours, faces, 0.0, 2.5, bounds)


def read_scene_script(file):
    """Return header, points, colours and faces of a scene's file."""
    header, text = re.fullmatch(r'renderAgentScene\((.*), "(.*)"\);\n', file.read_text()).groups()
    header, numbers = json.loads(header), zlib.decompress(base64.b64decode(text))
    count, faces = header["vertices"], header["faces"]
    steps = np.frombuffer(numbers, "<u2", 3 * count).reshape(-1, 3)
    colours = np.frombuffer(numbers, np.uint8, 3 * count, 6 * count).reshape(-1, 3)
    corners = np.frombuffer(numbers, "<u4", 3 * faces, 9 * count).reshape(-1, 3)
    return header, np.array(header["low"]) + header["step"] * steps, colours, corners


def test_small_scene_is_not_simplified(tmp_path, small_scene):
    (tmp_path / "scene.js").write_bytes(scene_script(small_scene))
    _, points, colours, faces = read_scene_script(tmp_path / "scene.js")
    assert np.abs(points - small_scene.points).max() < 1e-3
    assert np.array_equal(colours, small_scene.colours)
    assert np.array_equal(faces, small_scene.faces)


def test_large_mesh_is_simplified_in_place(large_scene):
    points, colours, faces = coarser(large_scene)
    assert MAX_FACES / 4 < len(faces) <= MAX_FACES < len(large_scene.faces)
    assert np.abs(points.min(0) - large_scene.points.min(0)).max() < 0.1
    assert np.abs(points.max(0) - large_scene.points.max(0)).max() < 0.1
    left = points[:, 0] < 4.9
    assert (colours[left, 0] > colours[left, 2]).all()
    assert (colours[points[:, 0] > 5.1, 2] > 200).all()


def test_large_cloud_is_thinned(large_scene):
    cloud = replace(large_scene, faces=None)
    points, colours, faces = coarser(cloud)
    assert len(points) == len(colours) <= len(cloud.points)
    assert len(faces) == 0


@pytest.fixture(scope="module")
def small_scene():
    """Return a scene of two triangles, red and blue."""
    points = np.array([[0, 0, 0], [2, 0, 0], [0, 3, 0], [2, 3, 1]], np.float32)
    colours = np.array([[200, 0, 0]] * 3 + [[0, 0, 200]], np.uint8)
    return scene_of(points, colours, np.array([[0, 1, 2], [1, 3, 2]], np.int32))


@pytest.fixture(scope="module")
def large_scene():
    """Return a floor of 10 × 5 m with 360,000 faces; the left half is red, the right half blue."""
    x, y = np.meshgrid(np.linspace(0, 10, 601), np.linspace(0, 5, 301), indexing="ij")
    points = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)]).astype(np.float32)
    colours = np.where(points[:, :1] < 5, [[220, 30, 30]], [[30, 30, 220]]).astype(np.uint8)
    corner = (np.arange(600)[:, None] * 301 + np.arange(300)).ravel()
    faces = np.concatenate(
        [
            np.column_stack([corner, corner + 301, corner + 1]),
            np.column_stack([corner + 1, corner + 301, corner + 302]),
        ]
    )
    return scene_of(points, colours, faces.astype(np.int32))


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    """Return the page of a question with several turns and a counterpart."""
    if not (ASSETS / "view3d.js").is_file():
        pytest.skip("the 3D view is not built here: see scripts/view3d/build")
    folder = run_rooms(
        tmp_path_factory.mktemp("in3d"), id=("3",), max_turns=4, change=("move:other",)
    )
    return build_index(folder).parent / "questions" / "3.html"


@pytest.fixture
def open_3d_view(window):
    """Return a function that opens the 3D view of a page and returns the page and its requests."""
    pages = []

    def open_view(page_file):
        page, requested_urls = window.new_page(), []
        pages.append(page)
        page.on("request", lambda request: requested_urls.append(request.url))
        page.goto(page_file.as_uri())
        assert not any("view3d.js" in url for url in requested_urls), (
            "loaded only when it is opened"
        )
        page.click("details.view3d summary")
        page.wait_for_selector("details.view3d[data-drawn]", timeout=120_000)
        return page, requested_urls

    yield open_view
    for page in pages:
        page.close()


def colours_of(page, file):
    """Return the pixels of the canvas (H, W, 3)."""
    page.locator("details.view3d .stage").screenshot(path=file)
    return np.asarray(Image.open(file).convert("RGB"))


def test_view_shows_the_room_and_turns_without_network(open_3d_view, page_file, tmp_path):
    page, urls = open_3d_view(page_file)
    assert all(url.startswith("file:") for url in urls)
    pixels = colours_of(page, tmp_path / "above.png")
    assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 500, "the room is drawn"
    number = page.locator("details.view3d .turn-number")
    assert number.text_content().startswith("Turn 1 of")
    page.focus("details.view3d canvas")
    page.keyboard.press("ArrowRight")
    assert number.text_content().startswith("Turn 2 of")
    page.keyboard.press("ArrowLeft")
    assert number.text_content().startswith("Turn 1 of")


def view_data(page_file):
    """Return the data of the 3D view on a page."""
    match = re.search(r'data-view="([^"]*)"', page_file.read_text())
    return json.loads(unescape(match[1]))


def test_boxes_are_marked_as_seen_per_turn(page_file):
    turns = view_data(page_file)["turns"]
    sightings = [
        turn.sightings for turn in diagnose_run(RunData(page_file.parents[2]), 1)["3"].turns
    ]
    assert any(s.area == 0 for turn in sightings for s in turn), "something was not in a picture"
    assert [turn["seen"] for turn in turns] == [
        sorted({s.box for s in turn if s.area > 0}) for turn in sightings
    ]


@pytest.mark.parametrize("size", [(320, 240), (320, 120)])
def test_around_view_has_four_parts(size, small_scene):
    renderer = Rasteriser()
    image, ahead = draw_around(renderer, small_scene, Camera((1, 1, 0.5), 30, 0, 60), size)
    parts = page_data._parts(View(0, "around", "views/0.png", ahead), size, "")
    assert len(parts) == 4
    for number, part in enumerate(parts):
        left, top, width, height = part["part"]
        camera = direction_of(ahead, size, number)
        assert part["position"] == pytest.approx(camera.position)
        assert part["fov"] == camera.vertical_fov
        expected = renderer.draw(small_scene, camera, width, height).colours
        cropped = image[top : top + height, left : left + width]
        label_height = height // 5  # its label is at the top
        assert np.array_equal(cropped[label_height:], expected[label_height:])


@WIDTHS_AND_SCHEMES
def test_accessibility_of_the_3d_view_and_the_pairs_page(open_3d_view, page_file, width, scheme):
    page, _ = open_3d_view(page_file)
    set_window(page, width, scheme)
    assert_accessible(page, width)
    page.goto((page_file.parents[1] / "pairs.html").as_uri())
    assert_accessible(page, width)


def pixels_from_first_pose(page, file):
    """Return the pixels of the 3D view from the pose of the first view."""
    page.emulate_media(reduced_motion="reduce")
    page.evaluate("document.querySelector('.view3d .stage img').style.visibility = 'hidden'")
    last_drawn = page.locator("details.view3d").get_attribute("data-drawn")
    page.click("details.view3d [name=stand]")
    page.wait_for_selector(f"details.view3d:not([data-drawn='{last_drawn}'])", timeout=60_000)
    return colours_of(page, file)


def test_camera_view_matches_the_image(open_3d_view, page_file, tmp_path):
    page, _ = open_3d_view(page_file)
    source = page.locator("details.view3d .stage img").get_attribute("src")
    pixels = pixels_from_first_pose(page, tmp_path / "seen.png")
    with Image.open((page_file.parent / source).resolve()) as image:
        view = image.convert("RGB").resize((pixels.shape[1], pixels.shape[0]))
    # Compare at low resolution: lines are drawn over the 3D view, and its scan can be simplified.
    size = (32, 24)
    downscaled = [
        np.asarray(Image.fromarray(np.asarray(p)).resize(size), float) for p in (pixels, view)
    ]
    close = (np.abs(downscaled[0] - downscaled[1]).max(axis=2) < 24).mean()
    mirrored = (np.abs(downscaled[0] - downscaled[1][:, ::-1]).max(axis=2) < 24).mean()
    assert close > 0.9
    assert close > mirrored + 0.2


@pytest.fixture
def restored_scene_file(page_file):
    """Restore the scene file of the page after the test."""
    file = page_file.parents[1] / "scenes3d" / "room00.js"
    content = file.read_bytes()
    yield
    file.write_bytes(content)


def test_splats_keep_their_orientation(open_3d_view, page_file, tmp_path, restored_scene_file):
    pose = view_data(page_file)["turns"][0]["views"][0]
    position, ahead, up = (np.array(pose[name]) for name in ("position", "forward", "up"))
    right = np.cross(ahead, up)
    centres = [position + 2 * ahead + side * 0.6 * right for side in (-1, 1)]
    quaternion = Rotation.from_matrix(np.column_stack([right, ahead, up])).as_quat()[[3, 0, 1, 2]]
    gaussians = Gaussians(
        np.array([[0.25, 0.05, 0.05], [0.05, 0.05, 0.25]], np.float32),
        np.tile(quaternion, (2, 1)).astype(np.float32),
        np.full(2, 1.0, np.float32),
        np.zeros((2, 1, 3), np.float32),
        np.eye(3),
    )
    colours = np.array([[255, 0, 0], [0, 0, 255]], np.uint8)
    scene = scene_of(np.array(centres, np.float32), colours, None)
    file = page_file.parents[1] / "scenes3d" / "room00.js"
    file.write_bytes(scene_script(replace(scene, gaussians=gaussians)))
    pixels = pixels_from_first_pose(open_3d_view(page_file)[0], tmp_path / "seen.png")
    spread = {}
    for name, channel in (("red", 0), ("blue", 2)):
        other_channels = np.delete(pixels, channel, axis=2).max(axis=2)
        strength = pixels[..., channel].astype(int) - other_channels
        v, u = np.nonzero(strength > 150)
        assert len(u) > 50, name
        spread[name] = (u.mean() / pixels.shape[1], np.ptp(u), np.ptp(v))
    assert spread["red"][0] < 0.45 < 0.55 < spread["blue"][0]
    assert spread["red"][1] > 2.5 * spread["red"][2], "it lies along the picture's width"
    assert spread["blue"][2] > 2.5 * spread["blue"][1], "it stands upright"


def test_large_splat_keeps_the_most_visible_gaussians(tmp_path, monkeypatch):
    monkeypatch.setattr(scene_file, "MAX_POINTS", 2)
    points = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [50, 0, 0]], np.float32)
    gaussians = Gaussians(
        np.array([[0.1] * 3, [0.01] * 3, [0.1] * 3, [9.0] * 3], np.float32),
        np.tile(np.float32([1, 0, 0, 0]), (4, 1)),
        np.array([0.9, 0.9, 0.5, 0.9], np.float32),
        np.zeros((4, 1, 3), np.float32),
        np.eye(3),
    )
    scene = replace(scene_of(points, np.zeros((4, 3), np.uint8), None), gaussians=gaussians)
    scene = replace(scene, bounds=np.array([[0, -1, -1], [2.0, 1, 1]]))
    assert scene_file.most_visible(scene).points[:, 0].tolist() == [0, 2]


def test_missing_webgl_is_reported(browser, page_file):
    page = with_timeout(browser.new_context()).new_page()
    try:
        page.add_init_script(
            "HTMLCanvasElement.prototype.getContext = function () { return null; };"
        )
        page.goto(page_file.as_uri())
        page.click("details.view3d summary")
        page.wait_for_selector("details.view3d .refusal:not([hidden])", timeout=60_000)
        assert page.locator("details.view3d .stage").is_hidden()
    finally:
        page.context.close()
