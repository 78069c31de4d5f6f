"""A renderer in a process of its own draws what it draws in this one, and its end is not ours."""

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
from render_agent.render import subprocess_renderer as apart
from render_agent.render.make_renderer import make_renderer
from render_agent.render.rasteriser.rasteriser import Rasteriser
from render_agent.render.subprocess_renderer import SubprocessRenderer, make_guarded
from render_agent.scans.camera import Camera, MapCamera

sys.path.insert(0, str(TREE / "tests" / "faults"))

from crashing_renderer import installed

SIZE = (64, 48)
CAMERA = Camera((0.0, 0.0, 1.5))


@pytest.fixture
def crashing(tmp_path, monkeypatch):
    """Install the renderer that goes wrong; give what tells it how."""
    monkeypatch.syspath_prepend(installed(tmp_path / "site"))

    def goes_wrong(how, at=1, times=1):
        told = {"how": how, "at": at, "times": times, "folder": str(tmp_path)}
        monkeypatch.setenv("CRASHING_RENDERER", json.dumps(told))
        return tmp_path / "processes"

    return goes_wrong


def gone(processes):
    """Whether all processes that drew have ended."""
    numbers = processes.read_text().split()
    return bool(numbers) and not [n for n in numbers if Path(f"/proc/{n}").exists()]


def same(one, other):
    """Whether two frames have the same bits."""
    return all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("colours", "depth", "primitive")
    )


def test_it_draws_what_it_draws_in_this_process(crashing):
    processes = crashing("crash", times=0)
    here, there = Rasteriser(threads=1), SubprocessRenderer("crashing")
    mesh = room(box((3, 1, 1), (3.4, 1.5, 1.5), RED))
    scenes = [mesh, as_cloud(mesh)]
    above = MapCamera((2.0, 0.0), 2.5, 0.1)
    for camera in (CAMERA, above, CAMERA):
        for scene in scenes:
            assert same(there.draw(scene, camera, *SIZE), here.draw(scene, camera, *SIZE))
    first = there._process
    scenes.pop()
    del scene
    gc.collect()
    assert same(there.draw(mesh, above, *SIZE), here.draw(mesh, above, *SIZE))
    assert there._process is first
    with pytest.raises(RenderError) as told:
        here.draw(mesh, CAMERA, 0, 48)
    with pytest.raises(RenderError) as told_there:
        there.draw(mesh, CAMERA, 0, 48)
    assert str(told_there.value) == str(told.value)
    for renderer in (here, there):
        renderer.close()
    assert len(processes.read_text().split()) == 1
    assert gone(processes)


@pytest.mark.slow
def test_a_scene_that_crashes_it_again_and_again_is_an_error_of_that_scene(crashing):
    processes = crashing("crash", times=100)
    renderer = SubprocessRenderer("crashing")
    deadly, other = room(), room()
    with pytest.raises(RenderError, match="SIGSEGV"):
        renderer.draw(deadly, CAMERA, *SIZE)
    assert len(processes.read_text().split()) == apart.MAX_TRIES
    crashing("crash", times=0)
    assert renderer.draw(other, CAMERA, *SIZE).colours.any()
    renderer.close()
    assert gone(processes)


@pytest.mark.slow
def test_pyrender_draws_there_what_it_draws_here():
    try:
        here = make_renderer("pyrender")
    except SetupError as error:
        pytest.skip(str(error))
    there = make_guarded("pyrender")
    assert isinstance(there, SubprocessRenderer)
    scene = room(box((3, 1, 1), (3.4, 1.5, 1.5), RED))
    for camera in (CAMERA, MapCamera((2.0, 0.0), 2.5, 0.1)):
        one, other = (renderer.draw(scene, camera, *SIZE) for renderer in (here, there))
        assert np.array_equal(one.colours, other.colours)
        assert np.array_equal(one.depth, other.depth)
    for renderer in (here, there):
        renderer.close()


@pytest.mark.parametrize("how", mostly_slow(["hang", "hang in native code"], "hang in native code"))
def test_whoever_waits_for_a_view_that_never_comes_can_be_freed(crashing, how):
    processes = crashing(how)
    renderer = SubprocessRenderer("crashing")
    told = []

    def wait():
        try:
            renderer.draw(room(), CAMERA, *SIZE)
        except RenderError as error:
            told.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not processes.with_name("views").exists():
        time.sleep(0.01)
    renderer.stop()
    waiting.join(apart.MAX_SECONDS / 2)
    assert len(told) == 1
    renderer.close()
    assert gone(processes)


@pytest.mark.slow
def test_a_view_that_never_comes_is_waited_for_so_long(crashing, monkeypatch):
    processes = crashing("hang", times=100)
    renderer = SubprocessRenderer("crashing")
    monkeypatch.setattr(apart, "MAX_SECONDS", 0.5)
    with pytest.raises(RenderError, match="crashing"):
        renderer.draw(room(), CAMERA, *SIZE)
    renderer.close()
    assert len(processes.read_text().split()) == apart.MAX_TRIES
    assert gone(processes)


def test_what_cannot_be_made_is_told_as_in_this_process(crashing, monkeypatch):
    with pytest.raises(SetupError, match="crayon"):
        make_guarded("crayon")
    monkeypatch.setenv("CRASHING_RENDERER", "{")
    with pytest.raises(SetupError, match="crashing"):
        make_guarded("crashing")


def test_the_programs_own_renderer_draws_in_this_process():
    renderer = make_guarded("rasteriser")
    assert isinstance(renderer, Rasteriser)
    renderer.close()
