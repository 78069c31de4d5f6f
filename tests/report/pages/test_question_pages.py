"""Browser tests of question pages: content, map and keyboard navigation."""

import json
import math
import re

import numpy as np
import pytest
from factories.pages import WIDTHS_AND_SCHEMES, assert_accessible, set_window
from factories.reports import (
    HOSTILE,
    assert_references_resolve,
    build_index,
    complete_run,
    floor_plan,
    run_hostile,
    run_rooms,
)
from factories.runs import make_config, make_questions, play
from playwright.sync_api import expect

from render_agent.engines.scripted import ScriptedEngine
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.pages.build import build_report
from render_agent.report.pages.page import page_of
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import convert

THOUGHT = "It must be <b>behind</b> me."

# replies to four questions about the first bundled room; the policy fails at question 17
REPLIES = {
    "10": [
        {"reasoning": "On.", "forward_meters": 2, "view": "around"},
        {"rotation_angle_degrees": 90, "forward_meters": 2},
        {"view": 1},
        {"view": "top"},
        {"answer": "A", "done": True},
    ],
    "11": [f"<think>{THOUGHT}</think>\n{HOSTILE}", {"answer": "B", "done": True}],
    "0": [{"answer": "3", "done": True}],
}


class FailingPolicy:
    """Returns REPLIES, and fails at question 17."""

    def reply(self, request):
        if request.dialogue_id == "17":
            if request.turn:
                raise RuntimeError(f"the lamp went out {HOSTILE}")
            return json.dumps({"rotation_angle_degrees": -45})
        reply = REPLIES[request.dialogue_id][request.turn]
        return reply if isinstance(reply, str) else json.dumps(reply)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Return the report folder of a run that covers all features of a dialogue."""
    path, _ = play(
        tmp_path_factory.mktemp("report"),
        "rooms",
        ScriptedEngine(FailingPolicy()),
        benchmark="rooms",
        id=("0", "10", "11", "17"),
        max_turns=6,
    )
    return build_index(RunData(path)).parent


@pytest.fixture(scope="module")
def turn_lines(report):
    """Return the logged turns by question."""
    lines_by_question = {}
    for line in RunData(report.parent).lines():
        if line["error"] is None:
            lines_by_question.setdefault(line["question_id"], []).append(line)
    return lines_by_question


def build_pages(folder, **options):
    """Write the report and return its folder."""
    return build_report(folder, processes=1, **options).parent


def url_of(report, question_id, after=""):
    return (report / page_of(question_id)).as_uri() + after


def plan_camera(report, scene="room00"):
    """Return the camera and the size of a plan."""
    plan = floor_plan(report, scene)
    return plan.camera, plan.size


def project_on_plan(report, points):
    camera, (width, height) = plan_camera(report)
    return camera.project(np.array(points, float), width, height)[0]


def numbers(text):
    return [float(number) for number in re.findall(r"-?[\d.]+", text)]


def test_stops_match_the_poses(page, report, turn_lines):
    page.goto(url_of(report, "10"))
    image = page.locator(".map image")
    assert image.get_attribute("href") == "../plans/room00.png"
    _, size = plan_camera(report)
    assert numbers(page.get_attribute(".map svg", "viewBox")) == [0, 0, *size]
    assert numbers(image.get_attribute("width")) + numbers(image.get_attribute("height")) == [*size]
    circles = page.locator(".map .stop .place")
    centres = [[float(p.get_attribute(name)) for name in ("cx", "cy")] for p in circles.all()]
    poses = [line["stood"]["position"] for line in turn_lines["10"]]
    assert np.allclose(centres, project_on_plan(report, poses), atol=0.051)
    assert page.locator(".map .stop text").all_text_contents() == ["1", "2", "3", "4", "5"]
    path = np.reshape(numbers(page.locator(".map .path").last.get_attribute("points")), (-1, 2))
    assert np.allclose(path, project_on_plan(report, poses), atol=0.051)


def test_wedges_match_the_fields_of_view(page, report, turn_lines):
    page.goto(url_of(report, "10"))
    wedges = page.locator(".map .wedge:not(.halo)")
    logged = turn_lines["10"]
    kinds = [[view["kind"] for view in line["views"]] for line in logged]
    assert kinds == [["top", "ego"], ["around"], ["ego"], ["ego"], ["top"]]
    dashed = ["map-only" in wedge.get_attribute("class") for wedge in wedges.all()]
    assert dashed == [
        False,
        False,
        False,
        True,
        True,
    ]  # turn 4 showed view 1 again, turn 5 only the map
    for number in (0, 2):
        apex, left, _, right = np.split(
            np.array(numbers(wedges.nth(number).get_attribute("d")))[[0, 1, 2, 3, 4, 5, 9, 10]], 4
        )
        camera = convert(logged[number]["stood"], Camera)
        assert np.allclose(apex, project_on_plan(report, [camera.position])[0], atol=0.051)
        to_left, to_right = left - apex, right - apex
        middle = to_left + to_right
        assert math.degrees(math.atan2(-middle[1], middle[0])) == pytest.approx(camera.yaw, abs=0.3)
        opening = math.degrees(
            math.acos(to_left @ to_right / np.linalg.norm(to_left) / np.linalg.norm(to_right))
        )
        assert opening == pytest.approx(75, abs=0.3)
    circle = wedges.nth(1).get_attribute("d")
    assert circle.count("a") == 2
    assert circle.endswith("Z")


def test_named_boxes_are_outlined(page, report):
    page.goto(url_of(report, "10"))
    diagnosis = diagnose_run(RunData(report.parent), 1)["10"]
    assert diagnosis.named
    assert {box.category for box in diagnosis.boxes} <= set(diagnosis.named)
    outlines = page.locator(".map .box:not(.halo)")
    assert outlines.count() == len(diagnosis.boxes) > 3
    for box, outline in zip(diagnosis.boxes, outlines.all(), strict=True):
        signs = np.array([[a, b, c] for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]) / 2
        corners = np.array(box.centre) + (signs * box.size) @ np.array(box.axes)
        pixels = project_on_plan(report, corners)
        vertices = np.reshape(numbers(outline.get_attribute("points")), (-1, 2))
        distances = np.linalg.norm(vertices[:, None] - pixels[None], axis=2)
        assert (distances.min(axis=1) < 0.08).all()  # every corner of the outline is one of the box
        extent = (pixels.min(0), pixels.max(0))
        assert np.allclose(
            (vertices.min(0), vertices.max(0)), extent, atol=0.08
        )  # and no vertex is outside
        assert outline.locator("title").text_content().startswith(box.category)
        if box.category in diagnosis.never_seen:
            assert outline.locator("title").text_content().endswith(", never seen clearly")


def test_blocked_move_is_marked(page, report, turn_lines):
    turn = turn_lines["10"][1]
    assert " of 2 m forward" in turn["happened"]
    page.goto(url_of(report, "10"))
    bar = page.locator(".map .block")
    assert bar.count() == 1  # the other moves were not blocked
    assert bar.locator("title").text_content() == f"Turn 2: {turn['happened']}"
    ends = np.array([[float(bar.get_attribute(f"{axis}{n}")) for axis in "xy"] for n in (1, 2)])
    camera = convert(turn["camera"], Camera)
    assert np.allclose(
        ends.mean(0),
        project_on_plan(report, [camera.position + camera.offset(0.2, 0, 0)]),
        atol=0.06,
    )
    direction = ends[1] - ends[0]
    assert direction @ (camera.forward[:2] * (1, -1)) == pytest.approx(0, abs=0.2)


def test_turn_shows_reply_action_result_and_views(page, report, turn_lines):
    page.goto(url_of(report, "10"))
    first, second = page.locator("#turn-1"), page.locator("#turn-2")
    assert first.locator("h3").inner_text() == "Turn 1 of 6"
    assert first.locator(".reply").text_content() == turn_lines["10"][0]["reply"]
    assert json.loads(first.locator(".json").text_content()) == REPLIES["10"][0]
    descriptions = first.locator(".did dd").all_inner_texts()
    assert descriptions[0] == "move 2 m forward; show around"
    assert descriptions[1] == turn_lines["10"][0]["happened"]
    assert second.locator(".did dd").first.inner_text() == "turn 90° left; move 2 m forward"
    assert "batched, 4 requests in the batch" in first.inner_text()
    tokens = turn_lines["10"][0]["tokens"]
    cost = f"{tokens['in']:,} input tokens, {tokens['out']} output tokens"
    assert cost in first.inner_text()
    images = page.locator(".view img")
    assert [p.get_attribute("alt").split(":")[0] for p in images.all()] == [
        f"View {n}" for n in (0, 1, 2, 3, 1, 4)
    ]
    yaw = turn_lines["10"][0]["views"][1]["camera"]["yaw"]
    assert f"yaw {yaw:.0f}°, pitch 0°" in images.nth(1).get_attribute("alt")
    assert {p.get_attribute("loading") for p in images.all()} == {"lazy"}
    assert {p.get_attribute("width") for p in images.all()} == {"96"}
    assert "shown again" in page.locator("#turn-4 figcaption").inner_text()


def test_visibility_matches_the_diagnosis(page, report):
    page.goto(url_of(report, "10"))
    run = RunData(report.parent)
    diagnosis, image_size = diagnose_run(run, 1)["10"], run.config.image_size
    for turn in diagnosis.turns:
        sightings = [sighting for sighting in turn.sightings if sighting.area > 0]
        rows = page.locator(f"#turn-{turn.turn + 1} .sights tbody tr")
        assert rows.count() == len(sightings)
        shares = sorted(f"{100 * s.share:.0f}" if 100 * s.share >= 1 else "<1" for s in sightings)
        has_view_column = len({s.view for s in sightings}) > 1
        cells = [row.locator("td").nth(int(has_view_column)).inner_text() for row in rows.all()]
        assert sorted(cell.partition("✓")[0] for cell in cells) == shares
        num_clear = sum(sighting.is_clear(image_size) for sighting in sightings)
        assert sum("✓" in cell for cell in cells) == num_clear
    head = page.locator(".seen thead th").all_inner_texts()
    assert head == ["turn", "1", "2", "3", "4", "5"]
    coverage = page.locator(".seen tbody tr").first.locator("td").all_inner_texts()
    assert [int(cell) for cell in coverage] == [round(100 * t.coverage) for t in diagnosis.turns]
    names = page.locator(".seen tbody th").all_inner_texts()
    assert names == [
        "room so far",
        *(n for n in diagnosis.named if n in {b.category for b in diagnosis.boxes}),
    ]


def test_thinking_is_collapsed_and_unreadable_replies_are_marked(page, report):
    page.goto(url_of(report, "11"))
    turn = page.locator("#turn-1")
    assert turn.locator(".thinking pre").text_content() == THOUGHT
    assert not turn.locator(".thinking pre").is_visible()
    turn.locator(".thinking summary").click()
    assert turn.locator(".thinking pre").is_visible()
    assert turn.locator(".reply").text_content() == HOSTILE
    assert turn.locator(".malformed .mark.wrong").count() == 1
    assert page.title().startswith("Question 11")


def test_failed_question_shows_its_error(page, report):
    page.goto(url_of(report, "17"))
    assert "the lamp went out" in page.inner_text(".error > p")
    assert "failed" in page.inner_text(".facts")
    assert page.locator(".turn").count() == 1
    assert page.title().startswith("Question 17")


def test_keyboard_navigation(page, report):
    page.emulate_media(reduced_motion="reduce")
    page.goto(url_of(report, "0"))
    assert page.inner_text("#place") == "1 of 4"
    assert page.get_attribute("#before", "href") is None
    page.keyboard.press("p")
    page.keyboard.press("n")
    page.wait_for_url("**/10.html")
    page.keyboard.press("2")
    assert page.evaluate("document.activeElement.id") == "turn-2"
    assert page.evaluate("document.getElementById('turn-2').getBoundingClientRect().top") < 100
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/11.html")
    page.keyboard.press("p")
    page.wait_for_url("**/10.html")
    page.keyboard.press("u")
    page.wait_for_url("**/index.html*")
    page.wait_for_selector("#table tbody tr")


def test_keyboard_navigation_follows_the_filter(page, report):
    filter_hash = "#type=relative+distance&sort=-turns"
    page.goto(url_of(report, "10", filter_hash))
    assert page.inner_text("#place") == "1 of 2 matching the filter"
    page.click(".map .stop[data-for=turn-2]")
    assert "sort=-turns" in page.url
    assert page.evaluate("document.activeElement.id") == "turn-2"
    page.keyboard.press("n")
    page.wait_for_url("**/11.html#type=relative+distance&sort=-turns")
    assert page.get_attribute("#after", "href") is None
    page.keyboard.press("u")
    page.wait_for_url("**/index.html#*")
    assert page.locator("#table tbody tr").count() == 2


def test_turn_and_map_are_highlighted_together(page, report):
    page.goto(url_of(report, "10"))
    highlighted = ".map .wedge.lit"
    assert page.locator(highlighted).count() == 0
    page.hover("#turn-2 h3")
    assert page.get_attribute(highlighted, "data-for") == "turn-2"
    page.hover(".map .stop[data-for=turn-1] .disc", force=True)
    assert page.get_attribute(highlighted, "data-for") == "turn-1"
    assert page.locator(".turn.lit").get_attribute("id") == "turn-1"
    page.focus(".map .stop[data-for=turn-3]")
    assert page.get_attribute(highlighted, "data-for") == "turn-3"


def test_all_links_resolve(report):
    pages = sorted((report / "questions").iterdir())
    assert len(pages) == 4
    for file in pages:
        assert_references_resolve(file)


def test_images_enlarge_and_play_as_a_slide_show(page, report):
    page.goto(url_of(report, "10"))
    files = page.locator("a.enlarge").evaluate_all("all => all.map(link => link.href)")
    assert len(files) == 6
    page.locator("a.enlarge").nth(2).focus()
    page.keyboard.press("Enter")
    film = page.locator("dialog.film")
    assert film.is_visible()
    assert film.locator("img").get_attribute("src") == files[2]
    assert film.locator(".caption b").inner_text() == "Turn 2 of 6, view 3 of 6"
    page.keyboard.press("ArrowRight")
    assert film.locator("img").get_attribute("src") == files[3]
    page.keyboard.press("n")  # no effect on the page behind the dialog
    page.keyboard.press("Escape")
    assert not film.is_visible()
    # the close event is dispatched in a later task
    expect(page.locator("a.enlarge").nth(3)).to_be_focused()
    page.click("#play-turns")
    assert film.locator("img").get_attribute("src") == files[0]
    page.wait_for_selector(f"dialog.film img[src='{files[1]}']")
    page.get_by_role("button", name="Pause").click()
    assert_accessible(page)
    film.get_by_role("button", name="Close").click()
    assert url_of(report, "10") == page.url


def test_wrong_answer_starts_with_its_cause(page, report):
    rows = {row["question_id"]: row for row in RunData(report.parent).saved_results["questions"]}
    for question_id, row in rows.items():
        page.goto(url_of(report, question_id))
        headline = page.locator(".verdict").all_inner_texts()
        assert len(headline) == (row["score"] is not None and row["score"] < 0.5)
        if headline:
            assert headline[0].startswith("Why:")
            assert "It " in headline[0]
            above = [page.locator(name).bounding_box()["y"] for name in (".verdict", "#question")]
            assert above[0] < above[1]


@WIDTHS_AND_SCHEMES
def test_accessibility(page, report, width, scheme):
    set_window(page, width, scheme)
    for question_id in ("10", "17") if scheme == "dark" else ("10",):
        page.goto(url_of(report, question_id))
        assert_accessible(page, width)


def test_hostile_texts_are_escaped(page, tmp_path):
    folder = run_hostile(tmp_path)
    pages = build_pages(folder)
    for state in folder.states:
        page.goto(url_of(pages, state.id))
        assert page.title().startswith("Question ")  # an executed script would have changed it
        heading = page.locator("#question").text_content()
        assert heading == state.question.text.encode("utf-8", "replace").decode()
        options = page.locator(".options li").all_text_contents()
        assert len(options) == len(state.question.options)
        assert all(HOSTILE in text for text in options[:1])


def test_questions_without_a_scan(page, tmp_path):
    questions = make_questions(tmp_path, 2)
    row = json.loads(questions.read_text().splitlines()[0])
    with questions.open("a") as file:
        file.write(json.dumps(row | {"id": 7, "scene_name": "gone"}) + "\n")
    folder = complete_run(make_config(tmp_path, questions, allow_missing=True, max_turns=3))
    (tmp_path / "room.ply").unlink()
    pages = build_pages(folder)
    page.goto(url_of(pages, "7"))
    assert "scan not found" in page.inner_text(".facts")
    assert page.locator(".map").count() == 0
    page.goto(url_of(pages, "0"))
    assert page.locator(".map image").count() == 0
    assert page.locator(".map .stop").count() == 3
    assert "only positions" in page.inner_text(".map figcaption")


def test_preselected_views_are_on_the_map(page, tmp_path):
    page.emulate_media(reduced_motion="reduce")
    folder = run_rooms(tmp_path, views="four", id=("10",), max_turns=2)
    pages = build_pages(folder)
    page.goto(url_of(pages, "10"))
    (state,) = folder.states
    cameras = [view.camera for view in state.views if isinstance(view.camera, Camera)]
    assert len(cameras) == 4
    stops = page.locator(".map .stop")
    assert [int(text) for text in stops.locator("text").all_text_contents()] == [
        view.number for view in state.views if isinstance(view.camera, Camera)
    ]
    centres = [float(circle.get_attribute("cx")) for circle in stops.locator(".place").all()]
    assert np.allclose(
        centres, project_on_plan(pages, [c.position for c in cameras])[:, 0], atol=0.051
    )
    assert page.locator(".map .path").count() == 0
    number = state.views[-1].number
    page.keyboard.press(str(number))
    assert page.evaluate("document.activeElement.id") == f"view-{number}"
    assert page.get_attribute(".wedge.lit", "data-for") == f"view-{number}"
    assert page.locator(".seen thead th").all_inner_texts() == ["view", *map(str, range(4))]
