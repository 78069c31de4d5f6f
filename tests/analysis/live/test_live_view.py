"""A run looked at while it goes on: pages keep themselves up to date, and nothing but them is served."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from threading import Semaphore, Thread

import pytest
from factories.pages import assert_nothing_serious, seen_at
from factories.runs import Silent, make_config, make_questions, play, walking
from playwright.sync_api import expect

from render_agent.analysis.live.run import LiveRun, Tail
from render_agent.analysis.live.server import LiveSite
from render_agent.engines.scripted import Replies, ScriptedEngine
from render_agent.errors import RunLogError
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.runner import start_run
from render_agent.web.server import LocalServer
from render_agent.web.templates import ASSETS

STEP = json.dumps({"reasoning": "I go on.", "rotation_angle_degrees": 30, "forward_meters": 0.2})
DONE = [json.dumps({"answer": answer, "done": True}) for answer in ("3", "B")]


class Gated:
    """Replies like another policy, but each time only once it may."""

    def __init__(self, policy):
        self.policy = policy
        self.gate = Semaphore(0)

    def reply(self, request):
        assert self.gate.acquire(timeout=600)
        return self.policy.reply(request)


@contextmanager
def going_on(folder, count=2, turns=3, **options):
    """Give a run under way in a thread, and the gate of its replies; it ends when the test does."""
    replies = Replies({str(number): [STEP] * turns + [DONE[number % 2]] for number in range(count)})
    policy = Gated(replies)
    run = start_run(make_config(folder, make_questions(folder, count), max_batched_turns=0,
                            finish_together=1, **options))  # fmt: skip

    def go():
        try:
            run.go(Silent(), lambda config, asked: ScriptedEngine(policy, 1))
        finally:
            run.close()

    thread = Thread(target=go)
    thread.start()
    try:
        yield run, policy.gate
    finally:
        policy.gate.release(1000)
        thread.join(300)
    assert not thread.is_alive()


@contextmanager
def viewed(path, scratch, page=None):
    """Give the server of a run's pages; a page that looks at them leaves before it goes."""
    site, server = LiveSite(RunFolder(path), scratch), LocalServer()
    server.start(site.routes())
    try:
        yield server
    finally:
        if page is not None:
            page.goto("about:blank")  # its icon may still be on the way
        server.close()
        site.close()


@pytest.fixture
def scratch(tmp_path):
    made = tmp_path / "scratch"
    made.mkdir()
    return made


def files_of(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_turns_come_to_an_open_page_by_themselves(tmp_path, scratch, page):
    with going_on(tmp_path) as (run, gate), viewed(run.path, scratch, page) as server:
        page.goto(f"{server.address}report/questions/0.html")
        expect(page.locator("#main")).to_contain_text("It has no turns yet.")
        expect(page.locator(".stamps")).to_contain_text("0 of 2 questions done")
        expect(page.locator("footer")).to_contain_text("2 of 2 questions are still active")
        gate.release()
        expect(page.locator("#turn-1")).to_have_count(1)
        expect(page.locator("#live")).to_have_text("1 new turn")
        page.locator("main details > summary").first.click()
        page.locator("main details > summary").first.focus()
        page.evaluate("window.kept = document.activeElement")
        page.evaluate("window.scrollTo({top: 200, behavior: 'instant'})")
        before = page.evaluate("scrollY")
        opened = page.locator("main details[open]").count()
        assert opened >= 1
        gate.release(2)
        expect(page.locator("#turn-3")).to_have_count(1)
        expect(page.locator("#live")).to_have_text("2 new turns")
        assert page.evaluate("document.activeElement === window.kept && window.kept.isConnected")
        assert page.evaluate("scrollY") == before
        assert page.locator("main details[open]").count() == opened
        gate.release()
        expect(page.locator(".stamps")).to_contain_text("1 of 2 questions done")
        gate.release(4)
        expect(page.locator("#live")).to_have_text("The run is finished")
        expect(page.locator(".stamps")).to_have_count(0)
        expect(page.locator("footer")).not_to_contain_text("still active")
        assert page.locator("article.turn, section.turn, .turn").count() == 4
        broken = page.evaluate(
            "[...document.images].filter(i => i.complete && !i.naturalWidth).length"
        )
        assert broken == 0
        seen_at(page, 390, "dark")
        assert_nothing_serious(page, 390)


def test_the_3d_view_follows_the_run(tmp_path, scratch, page):
    if not (ASSETS / "view3d.js").is_file():
        pytest.skip("the 3D view is not built here: see scripts/view3d/build")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    with going_on(tmp_path) as (run, gate), viewed(run.path, scratch, page) as server:
        gate.release(2)
        page.goto(f"{server.address}report/questions/0.html")
        expect(page.locator("#turn-1")).to_have_count(1)
        page.locator("details.view3d summary").click()
        page.wait_for_selector("details.view3d[data-drawn]", timeout=30_000)
        page.locator("details.view3d canvas").evaluate("canvas => { window.kept = canvas }")
        gate.release(2)
        expect(page.locator("#turn-4")).to_have_count(1)
        for _ in range(3):
            page.locator("details.view3d [name=after]").click()
        expect(page.locator("details.view3d .turn-number")).to_have_text("Turn 4 of 4")
        assert page.evaluate("window.kept.isConnected")
        assert all(url.startswith(server.address) for url in asked)


def test_the_index_follows_the_run_to_its_end(tmp_path, scratch, page, monkeypatch):
    monkeypatch.setattr("render_agent.analysis.live.run.SHARE", 1)
    with going_on(tmp_path) as (run, gate), viewed(run.path, scratch, page) as server:
        page.goto(server.address)
        assert page.url == f"{server.address}report/index.html"
        rows = page.locator("#table tbody tr")
        expect(rows).to_have_count(2)
        expect(rows.first).to_contain_text("active")
        page.locator("#filter [name=q]").fill("box")
        page.get_by_role("link", name="1", exact=True).focus()
        gate.release(4)
        expect(rows.first).not_to_contain_text("active")
        expect(page.locator(".counts")).to_contain_text("1 answered")
        expect(page.locator("header a[href='#why']")).to_have_count(1)
        expect(page.get_by_role("link", name="1", exact=True)).to_be_focused()
        assert page.locator("#filter [name=q]").input_value() == "box"
        gate.release(4)
        expect(page.locator(".stamps")).to_have_count(0)
        expect(page.locator(".counts")).to_contain_text("2 answered")
        expect(page.locator("#live")).to_have_text("The run is finished")
        assert_nothing_serious(page)
        page.get_by_role("link", name="1", exact=True).click()
        page.wait_for_url("**/report/questions/1.html*")
        assert page.locator("#turn-1").count() == 1


def test_nothing_is_written_into_the_run(tmp_path, scratch):
    path, _ = play(tmp_path, make_questions(tmp_path, 2), walking(2))
    before = files_of(path)
    with viewed(path, scratch) as server:
        for asked in ("report/index.html", "report/questions/0.html", "report/questions.js",
                      "report/all.html", "live/index.json", "live/questions/1.json"):  # fmt: skip
            with urllib.request.urlopen(server.address + asked) as got:
                assert got.read()
    assert files_of(path) == before


def status_of(address, **headers):
    asked = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(asked) as got:
            return got.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_only_pages_and_pictures_are_served(tmp_path, scratch):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking(1))
    (path / "views" / "out.png").symlink_to(tmp_path / "room.ply")
    (path / "views" / "evil.html").write_text("<script src=evil.js></script>")
    (path / "views" / "evil.js").write_text("fetch('/report/index.html')")
    (path / "views" / "scenes" / "other.png").write_bytes(
        (path / "views" / "scenes" / "room" / "0_top.png").read_bytes()
    )
    with viewed(path, scratch) as server:
        for asked, status in {
            "views/scenes/room/0_top.png": 200,
            "views/out.png": 404,
            "views/evil.html": 404,
            "views/evil.js": 404,
            "views/scenes/other.png": 404,
            "views/../config.json": 400,
            "views/%2e%2e/config.json": 400,
            "views/..%2fconfig.json": 400,
            "config.json": 404,
            "turns.jsonl": 404,
            "report/../turns.jsonl": 400,
            "report/config.json": 404,
            "report/questions/7.html": 404,
            "report/questions/0.html": 200,
            "live/questions/7.json": 404,
            "live/tail.py": 404,
        }.items():
            assert status_of(server.address + asked) == status, asked
        with urllib.request.urlopen(f"{server.address}views/scenes/room/0_top.png") as picture:
            assert picture.headers["Content-Type"] == "image/png"
            assert picture.headers["X-Content-Type-Options"] == "nosniff"
            assert "default-src 'none'; sandbox" in picture.headers.get_all(
                "Content-Security-Policy"
            )
        (path / "views" / "scenes" / "room" / "0_top.png").write_text("<script>alert(1)</script>")
        assert status_of(f"{server.address}views/scenes/room/0_top.png") == 404
        page = f"{server.address}report/index.html"
        assert status_of(page, Host="evil.example") == 421
        assert status_of(page, Origin="http://evil.example") == 403
        asked = urllib.request.Request(page, b"{}", {"Content-Type": "application/json"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked)
        with refused.value:
            assert refused.value.code == 403


def test_a_log_is_read_once_and_a_torn_line_when_it_is_whole(tmp_path):
    log = tmp_path / "turns.jsonl"
    tail = Tail(log)
    first, second, third = (
        b'{"question_id": "1", "turn": %d, "phase": "batched", "error": "lost"}\n' % number
        for number in range(3)
    )

    def new():
        return [line.head.number for line in tail.new_lines()]

    assert new() == []
    log.write_bytes(first + second[:20])
    assert new() == [0]
    assert new() == []
    with log.open("ab") as file:
        file.write(second[20:] + third)
    assert new() == [1, 2]
    with log.open("ab") as file:
        file.write(b"nonsense\n")
    with pytest.raises(RunLogError, match="line 4"):
        tail.new_lines()
    other = tmp_path / "other"
    other.write_bytes(first)
    other.replace(log)
    with pytest.raises(RunLogError, match="replaced or cut"):
        tail.new_lines()


def test_asking_again_where_a_run_stands_reads_nothing_again(tmp_path, scratch, monkeypatch):
    path, _ = play(tmp_path, make_questions(tmp_path, 3), walking(3))
    live = LiveRun(RunFolder(path), scratch)
    turns = len(RunFolder(path).lines())
    built = live.index()
    monkeypatch.setattr(
        "render_agent.analysis.live.run.read_line", lambda text: pytest.fail("read again")
    )
    standing = live.standing()
    assert standing == {
        "turns": turns,
        "done": 3,
        "questions": 3,
        "finished": True,
        "version": built,
        "shown": turns,
    }
    monkeypatch.setattr(
        "render_agent.analysis.live.run.write_index", lambda *given: pytest.fail("made again")
    )
    assert live.index() == built


@pytest.mark.slow
def test_the_command_serves_until_ctrl_c(tmp_path):
    path, _ = play(tmp_path, make_questions(tmp_path, 1), walking(1))
    words = ["view", path.name, "--output", path.parent, "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, "-m", "render_agent", *map(str, words)], stderr=subprocess.PIPE, text=True
    )
    try:
        address = process.stderr.readline().split()[-1]
        assert status_of(address) == 200
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Traceback" not in told
    assert not list(Path(path).rglob("*.part"))
