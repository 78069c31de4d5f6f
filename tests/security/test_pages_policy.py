"""Pages escape all untrusted text, and their content policy blocks injected markup."""

import json
import re
import shutil
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from conftest import BROWSER_TIMEOUT_MS, with_timeout
from factories import TREE
from factories.reports import HOSTILE, build_index
from factories.runs import make_questions, play

from render_agent.cli.main import cli
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.human.human_engine import HumanEngine
from render_agent.engines.scripted import ReplayPolicy, ScriptedEngine
from render_agent.report.pages.build import build_report
from render_agent.report.pages.live import LiveReports, live_routes
from render_agent.runs.read import RunData
from render_agent.util.web.checks import TOKEN_HEADER
from render_agent.util.web.server import LocalServer

WATCHED = """
window.forbidden = [];
addEventListener("securitypolicyviolation", event => window.forbidden.push(event.effectiveDirective));
"""

# Markup as it would appear in a page without escaping.
INJECTED = """
<script>document.title = "taken"</script>
<script src="data:text/javascript,document.title='taken'"></script>
<img src="nothing.png" onerror="document.title = 'taken'">
<svg onload="document.title = 'taken'"></svg>
<a id="j" href="javascript:document.title='taken'">j</a>
<iframe srcdoc="<script>parent.document.title = 'taken'</script>"></iframe>
<object data="data:text/html,x"></object>
<style>body { display: none }</style>
<p style="color: red">x</p>
<link rel="stylesheet" href="http://localhost:1/x.css">
<img src="http://localhost:1/x.png">
<form action="http://localhost:1/" id="f"><button>f</button></form>
<base href="http://localhost:1/">
"""

# Policy directives that must block the injected markup.
STOPPED = {
    "script-src-elem", "script-src-attr", "style-src-elem", "style-src-attr", "img-src", "object-src",
    "frame-src", "base-uri", "form-action",
}  # fmt: skip


@pytest.fixture
def watched_page(browser):
    """A browser page that records policy violations."""
    context = with_timeout(browser.new_context())
    context.add_init_script(WATCHED)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Two runs in which every text and name is markup: questions, options, replies, scan, data set, model, folder."""
    folder = tmp_path_factory.mktemp("made") / HOSTILE.replace("/", "%2f")[:80]
    folder.mkdir()
    questions = make_questions(folder, 3)
    rows = [json.loads(line) for line in questions.read_text().splitlines()]
    name = "\"'><script>document.title='taken'<$x_{"
    (folder / "room.ply").rename(folder / f"{name}.ply")
    for number, row in enumerate(rows):
        row |= {
            "question": f"{HOSTILE} {number}",
            "scene_name": name,
            "dataset": f"{name} {number % 2}",
        }
        row |= {"id": f"{HOSTILE} {number}"}
    rows[1]["options"] = [f"A. {HOSTILE}", f"B. {HOSTILE}"]
    questions = questions.rename(folder / f"{name}.jsonl")
    questions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    step = json.dumps({"reasoning": HOSTILE, "forward_meters": 0.2})
    runs = []
    for answer in ("3", "4"):
        answer_reply = json.dumps({"answer": answer, "done": True, "reasoning": HOSTILE})
        replies = [f"<think>{HOSTILE}</think>{step}", HOSTILE, answer_reply]
        path, _ = play(folder, questions, ScriptedEngine(ReplayPolicy({"*": replies})), max_turns=4)
        record = json.loads((path / "config.json").read_text())
        record["notes"] = [HOSTILE]
        record["engine"] |= {"model": HOSTILE, "note": HOSTILE}
        (path / "config.json").write_text(json.dumps(record))
        runs.append(path.rename(path.with_name(f"2026{answer}0101T000000_{name}")))
    return runs


@pytest.fixture(scope="module")
def pages(hostile):
    """All pages of these runs, including a comparison."""
    index = build_index(RunData(hostile[0]))
    arguments = ["compare", *map(str, hostile), "--page", str(hostile[0].parent / "pages?#%41")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    compared = hostile[0].parent / "pages?#%41"
    return [*sorted(index.parent.rglob("*.html")), *sorted(compared.rglob("*.html"))]


def policy_of(text):
    """Return the policy that a page states before it loads anything, by directive."""
    head = text.partition("</head>")[0]
    stated = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', head)
    assert stated.start() < min(head.find("<script"), head.find("<link")) or "<script" not in head
    parts = (part.split() for part in stated[1].split(";"))
    return {name: values for name, *values in parts}


def test_pages_state_a_strict_policy(pages):
    assert len(pages) >= 7
    for page in pages:
        policy = policy_of(page.read_text("utf-8"))
        assert policy["default-src"] == policy["base-uri"] == policy["form-action"] == ["'none'"]
        assert policy["script-src"] == policy["style-src"] == ["'self'"]
        assert set(policy) <= {
            "default-src", "script-src", "style-src", "img-src", "connect-src", "base-uri", "form-action",
        }  # fmt: skip
        assert all(values in (["'self'"], ["'none'"]) for values in policy.values())


def test_pages_do_not_violate_their_policy(pages, watched_page):
    for page in pages:
        watched_page.goto(page.as_uri())
        watched_page.evaluate(
            "document.querySelectorAll('details').forEach(part => { part.open = true })"
        )
        assert watched_page.evaluate("window.forbidden") == [], page.name
        assert watched_page.title() != "taken"
        assert (
            watched_page.locator("main script, main iframe, main [onerror], main [onload]").count()
            == 0
        )
        broken_images = "[...document.images].filter(one => one.complete && !one.naturalWidth && one.loading != 'lazy')"
        assert watched_page.evaluate(f"{broken_images}.length") == 0


TEMPLATES = sorted((TREE / "render_agent").rglob("templates/*.html"))


def test_templates_have_no_safe_filter_or_inline_code():
    assert len(TEMPLATES) > 12
    for file in TEMPLATES:
        text = re.sub(r"\{#.*?#\}", "", file.read_text("utf-8"), flags=re.DOTALL)
        safe = re.findall(r"\{\{[^}]*\|\s*safe[^}]*\}\}", text)
        assert not safe, file
        assert not re.search(r"autoescape|Markup|tojson|\bxmlattr\b", text), file
        assert not re.search(r"[\w-]=\s*\{\{", text), f"{file}: a value without quotes"
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son[a-z]+\s*=|javascript:", text), file
        if file.parts[-3] != "api":  # notebook HTML has no policy
            assert not re.search(r"<style|\sstyle\s*=", text), file


@contextmanager
def serve(routes):
    server = LocalServer()
    server.start(routes)
    try:
        yield server
    finally:
        server.close()


def trigger_injected(watched_page):
    """Trigger the injected markup, and wait until the policy has blocked all of it."""
    watched_page.locator("#j").evaluate("link => link.click()")
    watched_page.locator("#f").evaluate("form => form.requestSubmit()")
    expected = STOPPED - {"frame-src", "object-src"}
    until = time.monotonic() + BROWSER_TIMEOUT_MS / 1000
    # Polled from here, because the policy forbids the eval of wait_for_function.
    while not expected <= set(watched_page.evaluate("window.forbidden")):
        assert time.monotonic() < until
        watched_page.wait_for_timeout(20)
    assert watched_page.title() != "taken"
    assert watched_page.evaluate("getComputedStyle(document.body).display") != "none"


def test_injected_markup_is_blocked_on_disk(pages, watched_page):
    page = next(page for page in pages if page.name == "index.html")
    text = page.read_text("utf-8")
    spoilt = page.with_name("spoilt.html")
    spoilt.write_text(text.replace("</main>", f"{INJECTED}</main>"), "utf-8")
    watched_page.goto(spoilt.as_uri())
    trigger_injected(watched_page)
    spoilt.unlink()


def test_injected_markup_is_blocked_on_served_pages(hostile, watched_page, tmp_path):
    run = Path(shutil.copytree(hostile[0], tmp_path / "run"))
    index = build_report(RunData(run), processes=1, diagnose=False)
    page = next((index.parent / "questions").iterdir())
    page.write_text(page.read_text("utf-8").replace("</main>", f"{INJECTED}</main>"), "utf-8")
    with serve(live_routes(lambda: [run], LiveReports(), "/")) as server:
        address = f"{server.address}run/report/questions/{page.name}"
        with urllib.request.urlopen(address) as response:
            assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
            assert "unsafe" not in response.headers["Content-Security-Policy"]
        watched_page.goto(address)
        trigger_injected(watched_page)


def test_live_page_does_not_violate_its_policy(hostile, watched_page, tmp_path):
    """The page of a run in progress polls for updates."""
    run = Path(shutil.copytree(hostile[0], tmp_path / "run"))
    (run / "results.json").unlink()
    log = run / "turns.jsonl"
    log.write_bytes(b"".join(log.read_bytes().splitlines(keepends=True)[:-1]))
    build_report(RunData(run), processes=1, diagnose=False)
    with serve(live_routes(lambda: [run], LiveReports(), "/")) as server:
        with watched_page.expect_response(
            lambda response: response.request.resource_type == "fetch"
        ):
            watched_page.goto(f"{server.address}run/report/index.html")
        assert watched_page.evaluate("window.forbidden") == []
        assert watched_page.title() != "taken"


@pytest.mark.parametrize(
    "body", [b"[" * 150_000, b'{"key":' * 20_000, b"[]", b"7", b"\xff", b'{"key": 1}']
)
def test_invalid_reply_is_refused(body):
    engine = HumanEngine([], [], 3)
    try:
        headers = {
            "Content-Type": "application/json",
            "Origin": engine.address[:-1],
            TOKEN_HEADER: engine._server.token,
        }
        request = urllib.request.Request(f"{engine.address}reply", body, headers)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        with refused.value:
            assert refused.value.code == 400
    finally:
        engine.close()


def test_human_engine_page_escapes_markup(watched_page):
    question = Question("a", HOSTILE, HOSTILE, HOSTILE, "single", HOSTILE, "letter",
                        (f"A. {HOSTILE}", f"B. {HOSTILE}"))  # fmt: skip
    content = [{"type": "text", "text": f"{HOSTILE}\nIn words.\n\nTurn 1. {HOSTILE}"}]
    messages = [
        {"role": "system", "content": [{"type": "text", "text": HOSTILE}]},
        {"role": "user", "content": content},
    ]
    engine = HumanEngine([question], ["ego"], 3, name=HOSTILE)
    try:
        engine.submit([Request("a", 0, messages, load_image=lambda file: None)])
        watched_page.goto(engine.address)
        assert HOSTILE in watched_page.locator("h1").text_content()
        assert watched_page.evaluate("window.forbidden") == []
        assert watched_page.locator("main script, main img[src=x]").count() == 0
        assert watched_page.title() != "taken"
        with urllib.request.urlopen(engine.address) as response:
            policy = response.headers["Content-Security-Policy"]
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
    finally:
        engine.close()
