"""Scenes are read once, shared, dropped when memory is short, and safe to ask for from any thread."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from factories.scans import as_scene, mesh_ply, room

from render_agent.errors import SceneError
from render_agent.scans.cache import SceneCache


def asked(name, scan=True):
    return SimpleNamespace(id=f"q-{name}", scene=name, scan=Path(f"{name}.ply") if scan else None)


class Loader:
    """Makes rooms, and writes down which."""

    def __init__(self):
        self.read = []

    def __call__(self, path, name):
        self.read.append(name)
        if name.startswith("broken"):
            raise SceneError(f"the scan {path} cannot be read")
        return as_scene(*room())


SIZE = as_scene(*room()).bytes


def test_a_scene_is_read_once_for_all_its_questions():
    loader = Loader()
    cache = SceneCache(load=loader)
    scenes = {id(cache.get(asked("kitchen"))) for _ in range(5)}
    assert len(scenes) == 1
    assert loader.read == ["kitchen"]
    assert cache.loads == 1


def test_the_least_recently_used_goes_first():
    loader = Loader()
    cache = SceneCache(2 * SIZE, loader)
    for name in ("a", "b", "a", "c", "a", "b"):
        cache.get(asked(name))
    assert loader.read == ["a", "b", "c", "b"]


def test_a_scene_larger_than_the_limit_is_kept_alone():
    loader = Loader()
    cache = SceneCache(SIZE // 2, loader)
    for name in ("a", "a", "b", "b", "a"):
        cache.get(asked(name))
    assert loader.read == ["a", "b", "a"]


def test_a_broken_scan_is_read_once_and_says_the_same_to_all():
    loader = Loader()
    cache = SceneCache(SIZE, loader)
    sentences = set()
    for _ in range(3):
        with pytest.raises(SceneError) as caught:
            cache.get(asked("broken"))
        sentences.add(str(caught.value))
        cache.get(asked("a"))
        cache.get(asked("b"))
    assert len(sentences) == 1
    assert loader.read.count("broken") == 1


def test_a_scan_that_was_not_found():
    with pytest.raises(SceneError, match="attic"):
        SceneCache().get(asked("attic", scan=False))


def test_free_space_is_built_once_and_counted():
    cache = SceneCache(load=Loader())
    space = cache.space(asked("a"))
    assert cache.space(asked("a")) is space
    assert space.bytes > 0
    small = SceneCache(2 * SIZE, load=Loader())
    small.get(asked("b"))
    small.space(asked("a"))
    small.get(asked("b"))
    assert small.loads == 3


def test_many_threads_never_read_a_scene_twice_at_once():
    loader = Loader()
    begun = threading.Barrier(8)
    gate = threading.Event()

    def slow(path, name):
        gate.wait(60)
        return loader(path, name)

    cache = SceneCache(load=slow)

    def ask(number):
        begun.wait(60)
        if number == 0:
            gate.set()
        return cache.get(asked("ab"[number % 2]))

    with ThreadPoolExecutor(8) as pool:
        scenes = list(pool.map(ask, range(8)))
    assert sorted(loader.read) == ["a", "b"]
    assert len({id(scene) for scene in scenes}) == 2


def test_threads_under_a_tight_limit_get_the_right_scenes():
    cache = SceneCache(SIZE, lambda path, name: as_scene(room()[0] + float(name), room()[1]))

    def ask(number):
        name = str(number % 5)
        return cache.get(asked(name)).points[0, 0] == float(name)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


def test_other_errors_reach_everybody_and_are_not_remembered():
    attempts = []

    def load(path, name):
        attempts.append(name)
        if len(attempts) == 1:
            raise MemoryError
        return as_scene(*room())

    cache = SceneCache(load=load)
    with pytest.raises(MemoryError):
        cache.get(asked("a"))
    assert len(cache.get(asked("a")).points)


def test_files_are_read_by_their_path(tmp_path):
    path = tmp_path / "scan.ply"
    path.write_bytes(mesh_ply(*room()))
    scene = SceneCache().get(SimpleNamespace(id="q", scene="kitchen", scan=path))
    assert scene.id == "kitchen"
    assert np.array_equal(scene.points, room()[0].astype(np.float32))
