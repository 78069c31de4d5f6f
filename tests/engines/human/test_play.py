"""A person replies in the browser instead of a model, in an otherwise ordinary run."""

import json
import signal
import socket
import threading
import urllib.error
import urllib.request
from dataclasses import replace

import pytest
from click.testing import CliRunner
from conftest import mostly_slow, with_timeout
from factories.human_runs import TRUTH, ask_about_a_room, human_run, serve_run, start_program
from factories.pages import WIDTHS_AND_SCHEMES, assert_accessible, set_window
from playwright.sync_api import expect

from render_agent.cli.commands.play import DEFAULT_IDS, DEFAULT_QUESTION, chosen_options
from render_agent.cli.main import cli
from render_agent.dialogue.reply import FIELDS
from render_agent.engines.engine import Request
from render_agent.engines.human.human_engine import HumanEngine
from render_agent.engines.human.page import STEPS
from render_agent.errors import SetupError, UsageError
from render_agent.runs.read import RunData, find_run
from render_agent.runs.runner import resume_run
from render_agent.scans.camera import AnyCamera
from render_agent.util.safe_parse import convert
from render_agent.util.web import browser

COUNT, DIRECTION, SIZE = "object_counting", "object_rel_direction_easy", "object_size_estimation"


@pytest.fixture
def free_page(browser):
    """A page for tests in which requests may fail or the server may be down."""
    context = with_timeout(browser.new_context(viewport={"width": 1400, "height": 900}))
    yield context.new_page()
    context.close()


def expect_turn(page, number, of=4):
    expect(page.locator(".turn-count")).to_have_text(f"Turn {number} of {of}")


def send(page):
    page.locator("#send").click()


def test_three_turns_in_the_browser_are_recorded(tmp_path, page):
    with human_run(tmp_path, ask_about_a_room(tmp_path, DIRECTION)) as human:
        page.goto(human.engine.address)
        expect_turn(page, 1)
        expect(page.locator("h1")).to_have_text("Question 0: where is the <red> box?")
        page.get_by_role("button", name="turn 45 degrees left").click()
        page.get_by_role("button", name="half a metre ahead").click()
        expect(page.locator("#preview")).to_have_text(
            '{"rotation_angle_degrees":45,"forward_meters":0.5,"view":"ego"}'
        )
        send(page)
        expect_turn(page, 2)
        expect(page.locator(".feedback")).to_contain_text("Turned 45° left; moved 0.5 m forward.")
        page.locator("figure.view img[data-map]").scroll_into_view_if_needed()
        box = page.locator("figure.view img[data-map]").bounding_box()
        page.locator("figure.view img[data-map]").click(
            position={"x": box["width"] * 0.75, "y": box["height"] * 0.25}
        )
        expect(page.locator(".dot")).to_be_visible()
        page.get_by_label("all around").check()
        send(page)
        expect_turn(page, 3)
        page.get_by_label("B. right").check()
        page.get_by_label("I am done").check()
        send(page)
        expect(page.locator("h1")).to_have_text("Session over")
    first, second, last = human.lines()
    assert first["action"] == {"rotation": 45, "forward": 0.5, "view": "ego"}
    assert first["reply"] == '{"rotation_angle_degrees":45,"forward_meters":0.5,"view":"ego"}'
    camera = convert(first["views"][0]["camera"], AnyCamera)
    x, y, z = second["action"]["look_at"]
    assert x == pytest.approx(camera.centre[0] + 0.25 * 160 * camera.metres_per_pixel, abs=0.05)
    assert y == pytest.approx(camera.centre[1] + 0.25 * 120 * camera.metres_per_pixel, abs=0.05)
    assert z == pytest.approx(1.0, abs=0.11)
    assert second["action"]["view"] == "around"
    assert f"({x:g}, {y:g}, {z:g})" in second["happened"]
    assert last["action"] == {"answer": "B", "answer_text": "B", "done": True}
    assert [view["kind"] for view in last["views"]] == ["around"]
    assert all(line["seconds"]["generating"] > 0 for line in human.lines())
    assert {line["batch_size"] for line in human.lines()} == {1}
    assert {line["phase"] for line in human.lines()} == {"finishing"}
    files = [view["file"] for line in human.lines() for view in line["views"]]
    assert len(files) == 4
    assert all((human.path / file).is_file() for file in files)
    folder = RunData(human.path)
    assert folder.record["engine"]["model"] == "person"
    (row,) = folder.saved_results["questions"]
    assert (row["answer"], row["score"], row["status"], row["turns"]) == ("B", 1.0, "answered", 3)
    assert folder.saved_results["official"] == 100
    assert folder.states[0].answer == "B"


def test_page_shows_the_messages_of_a_model_and_no_ground_truth(tmp_path, page):
    urls = []
    page.on("response", lambda response: urls.append(response.url))
    with human_run(tmp_path, ask_about_a_room(tmp_path, COUNT)) as human:
        page.goto(human.engine.address)
        expect_turn(page, 1)
        pages = [page.content()]
        request = human.engine.first()[1]
        texts = [
            piece["text"]
            for message in request.messages
            for piece in message["content"]
            if piece["type"] == "text"
        ]
        page.locator("details.dialogue summary").click()
        captions = page.locator(".dialogue p").all_inner_texts()
        displayed = [caption.removesuffix(" (image)") for caption in captions]
        displayed += page.locator(".dialogue pre").all_inner_texts()
        assert sorted(displayed) == sorted(texts)
        for index, view in enumerate(request.views):
            source = page.locator("figure.view img").nth(index).get_attribute("src")
            response = page.request.get(human.engine.address + source)
            assert response.body() == (human.path / view.file).read_bytes()
        page.locator("#forward_meters").fill("1.25")
        page.get_by_label("the map").check()
        send(page)
        expect_turn(page, 2)
        pages.append(page.content())
        page.get_by_label("A number").fill("3")
        page.get_by_label("I am done").check()
        expect(page.locator("#send")).to_have_text("Answer and finish")
        send(page)
        expect(page.locator("h1")).to_have_text("Session over")
        pages.append(page.content())
    assert TRUTH in (human.path / "questions.jsonl").read_text()
    assert not [content for content in pages if TRUTH in content]
    assert all(url.startswith(human.engine.address) for url in urls)


def test_keyboard_only_use_with_an_unreadable_reply(tmp_path, page):
    with human_run(tmp_path, ask_about_a_room(tmp_path, SIZE)) as human:
        page.goto(human.engine.address)
        expect_turn(page, 1)
        for key in ("Shift+ArrowRight", "ArrowLeft", "ArrowDown", "a", "r", "g", "3"):
            page.keyboard.press(key)
        expect(page.locator("#preview")).to_have_text(
            '{"rotation_angle_degrees":-45,"pitch_degrees":-15,"forward_meters":-0.5,'
            '"left_meters":0.5,"z_delta_meters":0.5,"view":"around"}'
        )
        page.keyboard.press("Escape")
        expect(page.locator("#preview")).to_have_text('{"view":"ego"}')
        page.get_by_label("done").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Control+Enter")
        expect(page.locator("#problem")).to_contain_text("Enter an answer")
        page.keyboard.press("Space")
        page.get_by_text("Write the reply yourself").focus()
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        page.keyboard.type("I would rather say {'view': 'up'}")
        page.keyboard.press("Control+Enter")
        expect_turn(page, 2)
        expect(page.locator("#title")).to_be_focused()
        expect(page.locator(".feedback")).to_contain_text("could not be read")
        page.locator("#answer").focus()
        page.keyboard.type("65")
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        page.keyboard.press("Control+Enter")
        expect(page.locator("h1")).to_have_text("Session over")
    malformed, final = human.lines()
    assert malformed["reply"] == "I would rather say {'view': 'up'}"
    assert "malformed" in malformed["action"]
    assert final["action"]["answer"] == "65"
    assert human.results["counts"]["repairs"] == 1


def test_turn_is_answered_once_from_two_windows_and_after_reloading(tmp_path, free_page):
    page = free_page
    with human_run(tmp_path, ask_about_a_room(tmp_path, DIRECTION), max_turns=2) as human:
        page.goto(human.engine.address)
        expect_turn(page, 1, 2)
        key = page.locator("#turn").get_attribute("data-key")
        page.reload()
        assert page.locator("#turn").get_attribute("data-key") == key
        other = page.context.new_page()
        other.goto(human.engine.address)
        expect_turn(other, 1, 2)
        with other.expect_response("**/reply") as response:  # immediately, before the page polls
            other.evaluate(
                "document.querySelector('#turn').dataset.key = 'gone-1';"
                " document.querySelector('#send').click()"
            )
        assert response.value.status == 409
        expect(other.locator("#status")).to_contain_text("already answered")
        other.close()
        send(page)
        expect_turn(page, 2, 2)
        expect(page.locator(".answer-form")).to_contain_text("This is the last turn.")
        expect(page.get_by_label("I am done")).to_be_checked()
        page.get_by_label("A. left").check()
        send(page)
        expect(page.locator("h1")).to_have_text("Session over")
    assert len(human.lines()) == 2


@pytest.mark.parametrize("views", mostly_slow(["none", "four"], "none"))
def test_fixed_views_leave_only_the_answer_form(tmp_path, page, views):
    with human_run(tmp_path, ask_about_a_room(tmp_path, DIRECTION, COUNT), views=views) as human:
        page.goto(human.engine.address)
        for label in ("A. left", "A number"):
            expect(page.locator("#act")).to_be_visible()
            expect(page.get_by_text("Turn and move")).to_have_count(0)
            assert page.locator("figure.view").count() == {"none": 0, "four": 4}[views]
            field = page.get_by_label(label)
            if label == "A number":
                field.fill("4")
            else:
                field.check()
            page.get_by_label("I am done").check()
            key = page.locator("#turn").get_attribute("data-key")
            send(page)
            expect(page.locator(f"[data-key='{key}']")).to_have_count(0)
    assert human.results["counts"]["answered"] == 2


@WIDTHS_AND_SCHEMES
def test_page_is_accessible(tmp_path, page, width, scheme):
    set_window(page, width, scheme)
    with human_run(tmp_path, ask_about_a_room(tmp_path, DIRECTION)) as human:
        page.goto(human.engine.address)
        expect_turn(page, 1)
        send(page)
        expect_turn(page, 2)
        assert_accessible(page, width)
        page.evaluate("document.querySelectorAll('details').forEach(part => { part.open = false })")
        page.keyboard.press("w")
        page.keyboard.press("d")
        expect(page.locator("#preview")).to_contain_text('"forward_meters":0.5,"left_meters":-0.5')
        for key in ("q", "Shift+E", "t", "t", "g"):  # same keys as in the 3D viewer
            page.keyboard.press(key)
        expect(page.locator("#preview")).to_contain_text(
            '"rotation_angle_degrees":-45,"pitch_degrees":15'
        )
        for size in ((1440, 900), (1280, 720), (390, 844)):
            page.set_viewport_size(dict(zip(("width", "height"), size, strict=True)))
            page.evaluate("scrollTo(0, 0)")
            for part in ("#preview", "#send"):
                expect(page.locator(part)).to_be_in_viewport(ratio=1)
            page.locator("#title").evaluate("title => { title.textContent = 'Which? '.repeat(90) }")
            line = page.locator("#title").evaluate(
                "title => parseFloat(getComputedStyle(title).lineHeight)"
            )
            assert page.locator("#title").bounding_box()["height"] < 2.5 * line
        set_window(page, width, scheme)
        page.get_by_label("A. left").check()
        page.get_by_label("I am done").check()
        send(page)
        expect(page.locator("h1")).to_have_text("Session over")


@pytest.mark.slow
def test_session_resumes_after_kill_and_interrupt(tmp_path, free_page):
    page = free_page
    questions = ask_about_a_room(tmp_path, DIRECTION)
    runs = tmp_path / "runs"
    command = ("play", "--no-browser", "--benchmark", questions, "--output", runs, "--model", "Ada")
    small = ("--max-turns", 5, "--image-size", "96x72")
    with start_program(*command, *small) as (killed, address):
        page.goto(address)
        for turn in (1, 2):
            expect_turn(page, turn, 5)
            page.keyboard.press("ArrowLeft")
            send(page)
        expect_turn(page, 3, 5)
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    expect(page.locator("#status")).to_contain_text("--continue recent")
    port = address.rpartition(":")[2].strip("/")
    resume = ("--continue", "recent", "--output", runs, "--port", port)
    with start_program(*resume) as (stopped, same_address):
        assert same_address == address
        key = page.locator("#turn").get_attribute("data-key")
        expect(page.locator(f"[data-key='{key}']")).to_have_count(0)  # the page has reconnected
        expect_turn(page, 3, 5)
        page.keyboard.press("ArrowUp")
        send(page)
        expect_turn(page, 4, 5)
        stopped.send_signal(signal.SIGINT)
        output = stopped.stderr.read()
        assert stopped.wait(120) == 130
    assert "--continue" in output
    assert "Traceback" not in output
    expect(page.locator("h1")).to_have_text("Session over")
    with serve_run(resume_run(find_run(runs, "recent"), {"port": 0})) as human:
        page.goto(human.engine.address)
        expect_turn(page, 4, 5)
        page.get_by_label("B. right").check()
        page.get_by_label("I am done").check()
        send(page)
    folder = find_run(runs, "recent")
    assert [line["turn"] for line in folder.lines()] == [0, 1, 2, 3]
    assert folder.saved_results["questions"][0]["score"] == 1.0
    assert folder.record["engine"]["model"] == "Ada"
    assert any("Ada" in note for note in folder.saved_results["notes"])


def request(question_id, turn=0):
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "instructions"}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": f"Where?\nIn words.\n\nTurn {turn + 1}."}],
        },
    ]
    return Request(question_id, turn, messages, load_image=lambda file: None)


def post(engine, **body):
    http_request = urllib.request.Request(
        engine.address + "reply",
        json.dumps(body).encode(),
        {
            "Content-Type": "application/json",
            "Origin": engine.address[:-1],
            "X-Render-Agent-Token": engine._server.token,
        },
    )
    try:
        with urllib.request.urlopen(http_request) as response:
            return response.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.fixture
def engine():
    engine = HumanEngine([], ["ego"], 3)
    yield engine
    engine.close()


def test_wake_interrupts_the_wait_for_a_reply(engine):
    engine.submit([request("a")])
    engine.wake()
    assert list(engine.ready()) == []
    threading.Timer(0.1, engine.wake).start()
    assert list(engine.ready()) == []


def test_only_the_current_request_can_be_answered_and_only_once(engine):
    engine.submit([request("a"), request("b")])
    first, current = engine.first()
    assert current.question_id == "a"
    assert list(engine.ready(0.01)) == []
    assert post(engine, key="other-1", text="{}") == 409
    assert post(engine, key=first, text="to a") == 200
    assert post(engine, key=first, text="again") == 409
    assert [(done.dialogue_id, reply.text) for done, reply in engine.ready()] == [("a", "to a")]
    second, _ = engine.first()
    assert post(engine, key=second, text="to b \ud800") == 200
    assert [reply.text for _, reply in engine.ready()] == ["to b \ud800"]
    assert list(engine.ready()) == []
    assert engine.calls == 2


def test_malformed_replies_are_rejected(engine):
    engine.submit([request("a")])
    key, _ = engine.first()
    assert post(engine, key=key) == 400
    assert post(engine, key=key, text=None) == 400
    assert post(engine, key=[key], text="") == 400
    assert post(engine, key=key, text="") == 200


def test_used_port_and_several_workers_are_rejected_before_the_run_folder_exists(tmp_path):
    questions = ask_about_a_room(tmp_path, DIRECTION)
    arguments = ["--batch", "--engine", "human", "--benchmark", str(questions)]
    arguments += ["--output", str(tmp_path / "runs")]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        result = CliRunner().invoke(cli, [*arguments, "--port", str(listener.getsockname()[1])])
        assert isinstance(result.exception, SetupError)
        assert "--port" in str(result.exception)
    result = CliRunner().invoke(cli, [*arguments, "--workers", "2"])
    assert isinstance(result.exception, UsageError)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("options", "configuration", "expected"),
    [
        ({}, {}, {"benchmark": "rooms", "id": DEFAULT_IDS, "batch": True}),
        ({"limit": 2}, {}, {"benchmark": "rooms", "limit": 2, "batch": True}),
        ({"type": ("x",)}, {}, {"benchmark": "rooms", "type": ("x",), "batch": True}),
        ({}, {"max_turns": 3}, {"benchmark": "rooms", "id": DEFAULT_IDS, "batch": True, "max_turns": 3}),
        ({"model": "Ada"}, {"model": "a/model", "limit": 1}, {"benchmark": "rooms", "limit": 1, "batch": True, "model": "Ada"}),
        ({}, {"model": "a/model", "limit": 1}, {"benchmark": "rooms", "limit": 1, "batch": True}),
        ({"scannet": ("d",)}, {}, {"scannet": ("d",), "batch": True}),
        ({}, {"scannetpp": ("d",)}, {"scannetpp": ("d",), "batch": True}),
        ({"benchmark": "vsibench"}, {"benchmark": "rooms"}, {"benchmark": "vsibench", "batch": True}),
        ({"ply": "p"}, {}, {"ply": "p", "question": DEFAULT_QUESTION, "batch": False}),
        ({"ply": "p", "question": "q"}, {"engine": "openai"}, {"ply": "p", "question": "q", "batch": False}),
    ],
)  # fmt: skip
def test_play_chooses_questions_from_options_and_configuration(options, configuration, expected):
    assert chosen_options(options, configuration) == {**expected, "engine": "human"}


def test_browser_is_not_opened_without_a_display(monkeypatch):
    urls = []
    monkeypatch.setattr(browser.webbrowser, "open", lambda url: urls.append(url) or True)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(browser.sys, "platform", "linux")
    assert not browser.open_page("http://127.0.0.1:1/")
    monkeypatch.setenv("DISPLAY", ":0")
    assert browser.open_page("http://127.0.0.1:1/")
    assert urls == ["http://127.0.0.1:1/"]


def test_form_has_a_field_with_limits_for_every_amount(tmp_path, page, monkeypatch):
    flag = replace(FIELDS[-1], name="crouch", moves=True)
    monkeypatch.setattr("render_agent.engines.human.page.FIELDS", (*FIELDS, flag))
    with human_run(tmp_path, ask_about_a_room(tmp_path, DIRECTION), max_turns=1) as human:
        page.goto(human.engine.address)
        expect_turn(page, 1, 1)
        amounts = {field.name: field.amount for field in FIELDS if field.amount is not None}
        fields = page.locator("[data-field]").all()
        assert [field.get_attribute("id") for field in fields] == [*amounts]
        for name, amount in amounts.items():
            field = page.locator(f"#{name}")
            assert float(field.get_attribute("max")) == amount.limit
            assert float(field.get_attribute("min")) == -amount.limit
        page.get_by_label("Crouch").check()
        assert '"crouch":true' in page.locator("#preview").inner_text()
        page.get_by_label("Crouch").uncheck()
        page.get_by_label("A. left").check()
        page.get_by_label("I am done").check()
        send(page)
        expect(page.locator("h1")).to_have_text("Session over")


def test_keyboard_shortcuts_are_unique():
    keys = [key for buttons in STEPS.values() for button in buttons for key in button.keys.split()]
    assert len(set(keys)) == len(keys)
    limits = {field.name: field.amount.limit for field in FIELDS if field.amount is not None}
    for name, buttons in STEPS.items():
        assert all(0 < abs(button.value) <= limits[name] for button in buttons)
