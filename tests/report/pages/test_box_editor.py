"""The page on which the boxes of a scan are drawn, in a real browser."""

import json

import numpy as np
import pytest
import trimesh
from conftest import with_timeout
from factories.pages import assert_accessible
from factories.scans import block, room
from playwright.sync_api import expect

from render_agent.dialogue.question import Question
from render_agent.options import RunConfig
from render_agent.report.pages.box_editor import BoxEditor
from render_agent.scans.formats.load import load_scene
from render_agent.tasks.ground_truth import load_facts
from render_agent.util.web.server import LocalServer

LOW, HIGH = (1.0, 1.0, 0.0), (2.0, 2.5, 0.75)
TO_Y_UP = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]], float)


@pytest.fixture
def editor(tmp_path):
    """Serve the page of a scan that is y up, in centimetres."""
    points, faces = room(block(LOW, HIGH))
    scan = tmp_path / "kitchen.obj"
    trimesh.Trimesh(100 * points @ TO_Y_UP.T, faces, process=False).export(scan)
    config = RunConfig(ply=str(scan), up="y", unit="cm")
    scene = load_scene(scan, up="y", unit="cm")
    server = LocalServer()
    editor = BoxEditor(scene, scan, scan.with_name("kitchen.boxes.json"), config, server.token)
    server.start(editor.routes())
    editor.address = server.address
    yield editor
    server.close()


@pytest.fixture
def free_page(browser):
    """A page for tests in which requests may fail."""
    context = with_timeout(browser.new_context(viewport={"width": 1400, "height": 900}))
    yield context.new_page()
    context.close()


def drag(page, editor, name, low, high):
    """Drag from the place `low` to `high`, in metres along the axes of a view."""
    view = next(view for view in editor.views if view.name == name)
    frame = page.locator(f"[data-name={name}]").bounding_box()
    places = []
    for place in (low, high):
        x, y = (np.array(place) - view.low) / view.scale / view.size
        places.append((frame["x"] + x * frame["width"], frame["y"] + (1 - y) * frame["height"]))
    page.mouse.move(*places[0])
    page.mouse.down()
    page.mouse.move(*places[1])
    page.mouse.up()


def test_a_drawn_box_is_in_the_file_and_in_the_facts(editor, page):
    page.set_viewport_size({"width": 1400, "height": 1100})
    page.goto(editor.address)
    assert_accessible(page)
    drag(page, editor, "plan", LOW[:2], HIGH[:2])
    drag(page, editor, "front", (1.5, 0.0), (1.6, 0.75))
    page.keyboard.type("table")  # the label has the focus
    page.keyboard.press("Enter")
    expect(page.locator("#list li")).to_have_count(1)
    drag(page, editor, "plan", (3, 1), (4, 2))
    page.keyboard.type("mistake")
    page.keyboard.press("Enter")
    expect(page.locator("#list li")).to_have_count(2)
    page.keyboard.press("Control+z")
    expect(page.locator("#list li")).to_have_count(1)
    page.keyboard.press("Control+s")
    expect(page.locator("#status")).to_have_text("Saved 1 boxes.")
    (entry,) = json.loads(editor.file.read_text())
    centre = 100 * TO_Y_UP @ (np.array(LOW) + HIGH) / 2
    np.testing.assert_allclose(entry["center"], centre, atol=2)
    np.testing.assert_allclose(entry["size"], (100, 75, 150), atol=3)
    question = Question("1", "b", "d", "s", "object_counting", "How many?", "number", scan=editor.scan)  # fmt: skip
    facts = load_facts([question], RunConfig(up="y", unit="cm"))["s"]
    np.testing.assert_allclose(facts.boxes["table"][0].bounds, (LOW, HIGH), atol=0.03)


def test_boxes_outside_the_scan_are_not_saved(editor, free_page):
    page = free_page
    page.goto(editor.address)
    for index, value in enumerate((50, 51, 1, 2, 0, 1)):
        page.locator("[data-end]").nth(index).fill(str(value))
    page.locator("#label").fill("ghost")
    page.locator("#add").click()
    with page.expect_response("**/boxes") as response:
        page.locator("#save").click()
    assert response.value.status == 422
    expect(page.locator("#status")).to_contain_text("ghost")
    assert not editor.file.exists()
