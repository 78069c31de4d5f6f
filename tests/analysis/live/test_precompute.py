"""While a run goes on, a process of low priority makes what its report needs of scans, and ends with it."""

import os
import resource
import shutil
import signal
import time
from contextlib import closing
from dataclasses import replace
from functools import partial

import psutil
import pytest
from factories.reports import reported, run_rooms
from factories.runs import SMALL, Silent

from render_agent.analysis.diagnosis import diagnose
from render_agent.analysis.live import background
from render_agent.analysis.live import precompute as precompute_module
from render_agent.analysis.live.background import precomputing, serve
from render_agent.analysis.live.precompute import precompute
from render_agent.config import RunConfig
from render_agent.questions.rooms import BUNDLED
from render_agent.runs.log.folder import RunFolder
from render_agent.runs.runner import start_run
from render_agent.scene.free_space.free_space import FreeSpace
from render_agent.system.kept_files import FOLDER_VARIABLE
from render_agent.system.processes import start_child

SCENES = ("room00", "room01")

CHOSEN = {"scene": SCENES, "type": ("room_size_estimation",), "max_turns": 3}

KINDS = 4
"""Of a scene its plan, its file in 3D, its visible surface, and which surface belongs to which box."""

SECONDS = 120
"""More than a process takes to begin and to make what two small rooms need."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return run_rooms(tmp_path_factory.mktemp("ahead"), **CHOSEN)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


def entries(folder):
    return {path.name: path.read_bytes() for path in folder.glob("*") if path.suffix != ".part"}


def until(true):
    end = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def never(seconds):
    return False


def in_progress(run, folder):
    """Return the folder of a run with the same questions that has taken no turn yet."""
    again = folder / run.name
    again.mkdir()
    for name in ("config.json", "questions.jsonl"):
        shutil.copy(run.path / name, again)
    return RunFolder(again)


def test_the_report_finds_all_that_it_needs_of_scans(run, kept, monkeypatch):
    precompute(run, never)
    made = entries(kept)
    assert len(made) == KINDS * len(SCENES)
    monkeypatch.setattr(FreeSpace, "of", None)  # which is not asked for
    reported(run)
    assert entries(kept) == made


def test_a_scene_is_made_once_the_run_has_come_to_it(run, kept, tmp_path):
    content = (run.path / "turns.jsonl").read_bytes()
    again = in_progress(run, tmp_path)
    first = content.splitlines(keepends=True)[0]
    parts = [b"", first[:100], first[100:], content[len(first) : -100], content[-100:]]
    made = []

    def over(seconds):
        """Have the log grow before each of its looks."""
        if seconds:
            made.append(len(entries(kept)) // KINDS)
            with (again.path / "turns.jsonl").open("ab") as file:
                file.write(parts.pop(0))
        return False

    precompute(again, over)  # it ends once all scenes are made
    assert made == [0, 0, 0, 1]
    assert len(entries(kept)) == KINDS * len(SCENES)


def test_it_stops_when_it_is_told_to(run, kept):
    precompute(run, lambda seconds: not seconds and entries(kept))
    assert len(entries(kept)) == KINDS


def test_a_scan_that_is_gone_leaves_the_others(run, kept, tmp_path, monkeypatch):
    gone = SCENES[0]
    read_states = precompute_module.read_states

    def without_a_scan(*about):
        states = read_states(*about)
        for state in states:
            if state.question.scene == gone:
                state.question = replace(state.question, scan=tmp_path / "gone.ply")
        return states

    monkeypatch.setattr(precompute_module, "read_states", without_a_scan)
    precompute(run, never)
    assert len(entries(kept)) == KINDS * (len(SCENES) - 1)


def test_its_process_ends_with_the_one_that_started_it(run, kept, tmp_path):
    again = in_progress(run, tmp_path)  # in which there is nothing to do yet
    ours, process = start_child(serve, str(again.path), 5)
    usual = psutil.Process().nice()
    until(lambda: psutil.Process(process.pid).nice() == usual + 5)
    ours.close()  # as where this process is killed
    # it may look at the pipe before the signal comes: which of both ends it does not matter
    assert process.wait(SECONDS) in (0, -signal.SIGIO)
    assert not entries(kept)


def serve_without_end(connection, run, niceness):
    """Do what `serve` does, with a scene that takes longer than anybody waits."""

    def busy(folder, over):
        (folder.path / "busy").touch()
        sum(range(1 << 62))

    precompute_module.precompute = busy
    serve(connection, run, niceness)


def test_its_process_ends_in_the_midst_of_a_scene_too(run, tmp_path):
    again = in_progress(run, tmp_path)
    ours, process = start_child(serve_without_end, str(again.path), 0)
    until((again.path / "busy").exists)
    ours.close()
    assert process.wait(SECONDS) == -signal.SIGIO


def serve_or_tell(connection, run, niceness):
    """Do what `serve` does, and end with 3 where it gets ready for work."""
    diagnose.get_ready = partial(os._exit, 3)
    serve(connection, run, niceness)


def test_its_process_does_nothing_where_the_run_ended_before(run):
    ours, process = start_child(serve_or_tell, str(run.path), 0)
    ours.close()
    assert process.wait(SECONDS) in (0, -signal.SIGIO)


def test_nothing_is_made_where_nothing_can_be_kept(run, tmp_path, monkeypatch):
    monkeypatch.setattr(precompute_module, "keep_scene", None)  # which is not asked for
    (tmp_path / "file").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "file" / "kept"))
    precompute(run, never)
    folder = tmp_path / "kept"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # as a disk that is full
    try:
        precompute(run, never)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not any(folder.iterdir())


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_a_run_goes_on_without_the_process(tmp_path, kept, monkeypatch, caplog, error):
    def no_thread(thread):
        raise error("can't start new thread")

    monkeypatch.setattr(background, "start", no_thread)
    run = start_run(RunConfig(output=str(tmp_path), **SMALL | BATCH))
    with closing(run.log), precomputing(run):
        run.go(Silent())
    assert RunFolder(run.path).results()
    assert "no process makes what the report needs of scans: can't start new thread" in caplog.text


BATCH = {"batch": True, "benchmark": "rooms", **CHOSEN}


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (BATCH, True),
        (BATCH | {"pictures": "black"}, False),
        (BATCH | {"views": "none"}, False),
        ({"ply": str(BUNDLED / "room00.ply"), "question": "How many chairs are there?"}, False),
    ],
)
def test_batches_that_show_their_scenes_have_them_made(
    tmp_path, kept, monkeypatch, options, wanted
):
    monkeypatch.setattr(background, "START_SECONDS", 0.0)
    monkeypatch.setattr(background, "NICENESS", 0)  # other tests leave no time
    before = psutil.Process().children()
    run = start_run(RunConfig(output=str(tmp_path), **SMALL | options))
    with closing(run.log), precomputing(run):
        run.go(Silent())
        until(lambda: len(entries(kept)) == KINDS * len(SCENES) * wanted)
    assert psutil.Process().children() == before
    assert bool(entries(kept)) == wanted


def test_a_short_run_starts_no_process(tmp_path, kept):
    run = start_run(RunConfig(output=str(tmp_path), **SMALL | BATCH))
    before = psutil.Process().children()
    with closing(run.log), precomputing(run):
        run.go(Silent())
        assert psutil.Process().children() == before
    assert not entries(kept)
