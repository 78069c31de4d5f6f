"""Tests of bundles: self-contained, and without paths, keys and servers."""

import json
import shutil
import zipfile

import pytest
from click.testing import CliRunner
from factories.reports import assert_references_resolve, build_index
from factories.runs import make_questions, play

from render_agent.cli.main import cli
from render_agent.dialogue.turn import Turn
from render_agent.engines.scripted import ScriptedEngine
from render_agent.errors import RunLogError, UsageError
from render_agent.report.pages.bundle import bundle
from render_agent.runs.read import RunData
from render_agent.util.atomic_files import atomic_write

USER = "zaphod"
KEY = "sk-proj-0123456789"
SERVER = "gpu7.zaphod.example"


class FailingPolicy:
    """Moves, and fails at one question with a path and a key in the error."""

    def __init__(self, home):
        self.home = home

    def reply(self, request):
        if request.dialogue_id == "1" and request.turn:
            raise RuntimeError(f"File {self.home}/code/x.py: {KEY} is refused")
        return json.dumps({"forward_meters": 0.3, "answer": "2", "done": request.turn == 1})


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run in a home directory; one question failed with a path and a key in its error."""
    home = tmp_path_factory.mktemp("made") / "home" / USER
    home.mkdir(parents=True)
    path, _ = play(home, make_questions(home, 3), ScriptedEngine(FailingPolicy(home)), max_turns=3)
    record = json.loads((path / "config.json").read_text())
    record["engine"]["servers"] = [{"url": f"http://{SERVER}/v1"}]
    record["config"]["base_url"] = [f"http://{SERVER}/v1"]
    (path / "config.json").write_text(json.dumps(record))
    (path / "views" / "stray.png").write_bytes(b"not referenced")
    return RunData(path)


@pytest.fixture
def set_home(monkeypatch, run):
    """Set HOME to the run's home directory, and an API key."""
    home = run.path
    while home.name != USER:
        home = home.parent
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    return home


def test_moved_bundle_is_self_contained_and_redacted(run, set_home, page, tmp_path):
    result = CliRunner().invoke(cli, ["bundle", str(run.path), "--to", str(tmp_path / "out.zip")])
    assert result.exit_code == 0, result.output
    with zipfile.ZipFile(tmp_path / "out.zip") as packed:
        assert packed.testzip() is None
        packed.extractall(tmp_path / "elsewhere")
    (root,) = (tmp_path / "elsewhere").iterdir()
    hidden = run.path.rename(run.path.with_name("hidden"))
    try:
        requested_urls = []
        page.on("request", lambda request: requested_urls.append(request.url))
        page.goto((root / "index.html").as_uri())
        page.wait_for_selector("#table tbody tr")
        page.click("#table tbody th a")
        page.wait_for_selector(".view img")
        page.locator(".view img").first.evaluate("image => image.decode()")
        assert all(url.startswith(root.as_uri() + "/") for url in requested_urls), requested_urls
    finally:
        hidden.rename(run.path)
    files = [path for path in root.rglob("*") if path.is_file()]
    for path in files:
        content = path.read_bytes()
        assert USER.encode() not in content, path
        assert KEY.encode() not in content, path
        assert SERVER.encode() not in content, path
        assert str(run.path.parents[2]).encode() not in content, path
        if path.suffix == ".html" and path.name != "index.html":
            for tag, _, value in assert_references_resolve(path).references:
                assert (path.parent / value.partition("#")[0]).resolve().is_relative_to(root), tag
    names = {path.relative_to(root).as_posix() for path in files}
    image_files = {
        file for line in run.turns if isinstance(line, Turn) for file in line.image_files
    }
    assert {name for name in names if name.startswith("views/")} == image_files
    assert {"config.json", "results.json", "report/index.html"} <= names
    assert not any(name.endswith((".jsonl", ".log")) for name in names)


def test_existing_files_are_not_overwritten(run, tmp_path):
    pages = build_index(run, diagnose=False).parent
    (tmp_path / "there").mkdir()
    bundle(run, pages, tmp_path / "there")
    with pytest.raises(UsageError, match="new folder"):
        bundle(run, pages, tmp_path / "there")
    shutil.copy(pages / "index.html", tmp_path / "page.zip")
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("photos/index.html", "mine")
    for name in ("page.zip", "photos.zip"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(UsageError, match="not a bundle"):
            bundle(run, pages, tmp_path / name)
        assert (tmp_path / name).read_bytes() == before
    for _ in range(2):  # its own bundle is replaced
        bundle(run, pages, tmp_path / "run.zip")


@pytest.mark.parametrize("new", [True, False])
def test_full_disk_leaves_no_partial_bundle(run, tmp_path, monkeypatch, new):
    """A partial bundle would look complete."""
    remaining = iter(range(5))

    def fail_when_full(path, content, *, durable):
        if next(remaining, None) is None:
            raise RunLogError("No space left on device")
        return atomic_write(path, content, durable=durable)

    monkeypatch.setattr("render_agent.report.pages.bundle.atomic_write", fail_when_full)
    if not new:
        (tmp_path / "out").mkdir()
    with pytest.raises(RunLogError):
        bundle(run, build_index(run, diagnose=False).parent, tmp_path / "out")
    assert list(tmp_path.rglob("*")) == ([] if new else [tmp_path / "out"])
