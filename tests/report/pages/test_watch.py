"""Tests of the live report: updated as the log grows, and served on localhost."""

import json
import shutil
import urllib.error
import urllib.request
from contextlib import closing

import pytest
from factories.reports import run_rooms

from render_agent.report.pages import watch as module
from render_agent.report.pages.watch import watch_run
from render_agent.runs.log.lock import FolderLock
from render_agent.runs.read import RunData


def fetch(address):
    with urllib.request.urlopen(address) as response:
        return response.read()


class WatchEnded(Exception):
    """Ends `watch_run`, which otherwise runs forever."""


@pytest.fixture
def run_in_progress(tmp_path):
    """Yield a run in progress, the rest of its log, and its results."""
    finished = run_rooms(tmp_path / "done", id=("0", "1"), max_turns=2).path
    path = shutil.copytree(finished, tmp_path / "going")
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:2]))
    (path / "results.json").unlink()
    with closing(FolderLock(path)):
        yield RunData(path), b"".join(lines[2:]), (finished / "results.json").read_bytes()


def test_new_turns_appear(run_in_progress, monkeypatch):
    folder, remaining_lines, results = run_in_progress
    bodies, addresses = [], []

    def check_between(seconds):
        assert seconds >= module.MIN_INTERVAL_SECONDS
        bodies.append(fetch(f"{addresses[0]}report/questions/0.html"))
        view = json.loads((folder.path / "turns.jsonl").read_bytes().splitlines()[0])["views"][0]
        assert fetch(addresses[0] + view["file"]) == (folder.path / view["file"]).read_bytes()
        with (folder.path / "turns.jsonl").open("ab") as log:
            log.write(remaining_lines)
        (folder.path / "results.json").write_bytes(results)

    def check_last(self):
        bodies.append(fetch(f"{addresses[0]}report/questions/0.html"))
        for name in ("turns.jsonl", "config.json", "report/../config.json", "views/../config.json"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                fetch(addresses[0] + name)
            refused.value.close()
        raise WatchEnded

    monkeypatch.setattr(module.time, "sleep", check_between)
    monkeypatch.setattr(module.LocalServer, "wait", check_last)
    with pytest.raises(WatchEnded):
        watch_run(folder, 0, addresses.append, processes=1)
    before, after = bodies
    assert b"RUNNING: 0 of 2" in before
    assert b"RUNNING" not in after
    assert after.count(b'class="turn"') == before.count(b'class="turn"') + 1
    assert addresses[0].startswith("http://127.0.0.1:")
