"""Tests of the live report of a run: rewritten when the log has grown, and served on localhost."""

import json
import shutil
import threading
import urllib.error
import urllib.request
from contextlib import closing

import pytest
from factories.reports import run_rooms

from render_agent.report.pages import live as module
from render_agent.report.pages.live import LiveReports, serve_run
from render_agent.runs.log.lock import FolderLock
from render_agent.util import interrupts


def fetch(address):
    with urllib.request.urlopen(address, timeout=300) as response:
        return response.read()


@pytest.fixture
def run_in_progress(tmp_path):
    """Yield a run in progress, the rest of its log, and its results."""
    finished = run_rooms(tmp_path / "done", id=("0", "1"), max_turns=2).path
    path = shutil.copytree(finished, tmp_path / "going #1")
    lines = (path / "turns.jsonl").read_bytes().splitlines(keepends=True)
    (path / "turns.jsonl").write_bytes(b"".join(lines[:2]))
    (path / "results.json").unlink()
    with closing(FolderLock(path)):
        yield path, b"".join(lines[2:]), (finished / "results.json").read_bytes()


@pytest.fixture
def served(run_in_progress, monkeypatch):
    """Serve the report of the run; yield the address of the run's folder."""
    servers, addresses, started = [], [], threading.Event()
    real = module.LocalServer

    def keep_server(port):
        servers.append(real(port))
        return servers[0]

    def on_start(address):
        addresses.append(address)
        started.set()

    monkeypatch.setattr(module, "LocalServer", keep_server)
    monkeypatch.setattr(module, "MIN_INTERVAL_SECONDS", 0)
    monkeypatch.setattr(module, "WAIT_FACTOR", 0)
    path = run_in_progress[0]
    threading.Thread(
        target=serve_run, args=(path, LiveReports(1), 0, on_start), daemon=True
    ).start()
    assert started.wait(60)
    with urllib.request.urlopen(addresses[0]) as response:
        yield response.url.removesuffix("report/index.html")
    servers[0].close()


def test_new_turns_appear(run_in_progress, served):
    path, remaining_lines, results = run_in_progress
    assert served.startswith("http://127.0.0.1:")
    before = fetch(f"{served}report/questions/0.html")
    assert b"RUNNING: 0 of 2" in before
    assert b"assets/live.js" in before
    view = json.loads((path / "turns.jsonl").read_bytes().splitlines()[0])["views"][0]
    assert fetch(served + view["file"]) == (path / view["file"]).read_bytes()
    with (path / "turns.jsonl").open("ab") as log:
        log.write(remaining_lines)
    (path / "results.json").write_bytes(results)
    after = fetch(f"{served}report/questions/0.html")
    assert b"RUNNING" not in after
    assert b"assets/live.js" not in after
    assert after.count(b'class="turn"') == before.count(b'class="turn"') + 1


def test_only_pages_and_images_are_served(served):
    for name in ("turns.jsonl", "config.json", "report/../config.json", "views/../config.json"):
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(served + name)
        refused.value.close()


def test_signal_that_a_library_swallowed_ends_the_service(monkeypatch):
    reports = LiveReports(1)
    monkeypatch.setattr(reports, "_requests", None)  # fails instead of waiting
    monkeypatch.setattr(interrupts, "_received", [KeyboardInterrupt])
    with pytest.raises(KeyboardInterrupt):
        reports.serve()
