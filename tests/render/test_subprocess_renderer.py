"""A renderer in a child process draws the same frames, and its crashes do not affect the run."""

import gc
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import mostly_slow
from factories import TREE
from factories.rooms import RED, as_cloud, box, room

from render_agent.errors import RenderError, SetupError
from render_agent.render import subprocess_renderer
from render_agent.render.make_renderer import make_renderer
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.subprocess_renderer import SubprocessRenderer, make_isolated_renderer
from render_agent.scans.camera import Camera, MapCamera

sys.path.insert(0, str(TREE / "tests" / "faults"))

from crashing_renderer import install

SIZE = (64, 48)
CAMERA = Camera((0.0, 0.0, 1.5))


@pytest.fixture
def crashing_renderer(tmp_path, monkeypatch):
    """Install the crashing renderer; return a function that configures it."""
    monkeypatch.syspath_prepend(install(tmp_path / "site"))

    def configure(failure, at=1, times=1):
        config = {"how": failure, "at": at, "times": times, "folder": str(tmp_path)}
        monkeypatch.setenv("CRASHING_RENDERER", json.dumps(config))
        return tmp_path / "processes"

    return configure


def have_ended(processes):
    """Return True if all rendering processes have ended."""
    numbers = processes.read_text().split()
    return bool(numbers) and not [n for n in numbers if Path(f"/proc/{n}").exists()]


def are_identical(first, second):
    """Return True if two frames are bit-identical."""
    return all(
        np.array_equal(getattr(first, name), getattr(second, name))
        for name in ("colours", "depth", "primitive")
    )


def test_frames_and_errors_are_those_of_the_renderer_itself(crashing_renderer):
    processes = crashing_renderer("crash", times=0)
    local, remote = Rasteriser(threads=1), SubprocessRenderer("crashing")
    mesh = room(box((3, 1, 1), (3.4, 1.5, 1.5), RED))
    scenes = [mesh, as_cloud(mesh)]
    above = MapCamera((2.0, 0.0), 2.5, 0.1)
    for camera in (CAMERA, above, CAMERA):
        for scene in scenes:
            assert are_identical(
                remote.draw(scene, camera, *SIZE), local.draw(scene, camera, *SIZE)
            )
    first = remote._process
    scenes.pop()
    del scene
    gc.collect()
    assert are_identical(remote.draw(mesh, above, *SIZE), local.draw(mesh, above, *SIZE))
    assert remote._process is first
    with pytest.raises(RenderError) as local_error:
        local.draw(mesh, CAMERA, 0, 48)
    with pytest.raises(RenderError) as remote_error:
        remote.draw(mesh, CAMERA, 0, 48)
    assert str(remote_error.value) == str(local_error.value)
    for renderer in (local, remote):
        renderer.close()
    assert len(processes.read_text().split()) == 1
    assert have_ended(processes)


@pytest.mark.slow
def test_repeated_crashes_are_an_error_of_the_scene(crashing_renderer):
    processes = crashing_renderer("crash", times=100)
    renderer = SubprocessRenderer("crashing")
    deadly, harmless = room(), room()
    with pytest.raises(RenderError, match="SIGSEGV"):
        renderer.draw(deadly, CAMERA, *SIZE)
    assert len(processes.read_text().split()) == subprocess_renderer.MAX_TRIES
    crashing_renderer("crash", times=0)
    assert renderer.draw(harmless, CAMERA, *SIZE).colours.any()
    renderer.close()
    assert have_ended(processes)


@pytest.mark.slow
def test_pyrender_draws_the_same_in_a_child_process():
    try:
        local = make_renderer("pyrender")
    except SetupError as error:
        pytest.skip(str(error))
    remote = make_isolated_renderer("pyrender")
    assert isinstance(remote, SubprocessRenderer)
    scene = room(box((3, 1, 1), (3.4, 1.5, 1.5), RED))
    for camera in (CAMERA, MapCamera((2.0, 0.0), 2.5, 0.1)):
        first, second = (renderer.draw(scene, camera, *SIZE) for renderer in (local, remote))
        assert np.array_equal(first.colours, second.colours)
        assert np.array_equal(first.depth, second.depth)
    for renderer in (local, remote):
        renderer.close()


@pytest.mark.parametrize(
    "failure", mostly_slow(["hang", "hang in native code"], "hang in native code")
)
def test_stop_releases_a_thread_waiting_for_a_hung_renderer(crashing_renderer, failure):
    processes = crashing_renderer(failure)
    renderer = SubprocessRenderer("crashing")
    errors = []

    def wait():
        try:
            renderer.draw(room(), CAMERA, *SIZE)
        except RenderError as error:
            errors.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not processes.with_name("views").exists():
        time.sleep(0.01)
    renderer.stop()
    waiting.join(subprocess_renderer.MAX_SECONDS / 2)
    assert len(errors) == 1
    renderer.close()
    assert have_ended(processes)


@pytest.mark.slow
def test_hung_renderer_times_out(crashing_renderer, monkeypatch):
    processes = crashing_renderer("hang", times=100)
    renderer = SubprocessRenderer("crashing")
    monkeypatch.setattr(subprocess_renderer, "MAX_SECONDS", 0.5)
    with pytest.raises(RenderError, match="crashing"):
        renderer.draw(room(), CAMERA, *SIZE)
    renderer.close()
    assert len(processes.read_text().split()) == subprocess_renderer.MAX_TRIES
    assert have_ended(processes)


def test_renderer_that_cannot_be_created_is_a_setup_error(crashing_renderer, monkeypatch):
    with pytest.raises(SetupError, match="crayon"):
        make_isolated_renderer("crayon")
    monkeypatch.setenv("CRASHING_RENDERER", "{")
    with pytest.raises(SetupError, match="crashing"):
        make_isolated_renderer("crashing")


def test_rasteriser_runs_in_this_process():
    renderer = make_isolated_renderer("rasteriser")
    assert isinstance(renderer, Rasteriser)
    renderer.close()
