"""The scene cache: loading once, sharing, eviction, and thread safety."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from factories.scans import as_scene, mesh_ply, room

from render_agent.errors import SceneError
from render_agent.scans.cache import SceneCache


def question(name, scan=True):
    return SimpleNamespace(id=f"q-{name}", scene=name, scan=Path(f"{name}.ply") if scan else None)


class Loader:
    """Creates rooms and records their names."""

    def __init__(self):
        self.names = []

    def __call__(self, path, name):
        self.names.append(name)
        if name.startswith("broken"):
            raise SceneError(f"the scan {path} cannot be read")
        return as_scene(*room())


SIZE = as_scene(*room()).bytes


def test_scene_is_loaded_once_for_all_questions():
    loader = Loader()
    cache = SceneCache(load=loader)
    scenes = {id(cache.get(question("kitchen"))) for _ in range(5)}
    assert len(scenes) == 1
    assert loader.names == ["kitchen"]
    assert cache.loads == 1


def test_least_recently_used_scene_is_evicted_first():
    loader = Loader()
    cache = SceneCache(2 * SIZE, loader)
    for name in ("a", "b", "a", "c", "a", "b"):
        cache.get(question(name))
    assert loader.names == ["a", "b", "c", "b"]


def test_scene_larger_than_the_limit_is_cached_alone():
    loader = Loader()
    cache = SceneCache(SIZE // 2, loader)
    for name in ("a", "a", "b", "b", "a"):
        cache.get(question(name))
    assert loader.names == ["a", "b", "a"]


def test_broken_scan_is_loaded_once_and_its_error_cached():
    loader = Loader()
    cache = SceneCache(SIZE, loader)
    messages = set()
    for _ in range(3):
        with pytest.raises(SceneError) as error:
            cache.get(question("broken"))
        messages.add(str(error.value))
        cache.get(question("a"))
        cache.get(question("b"))
    assert len(messages) == 1
    assert loader.names.count("broken") == 1


def test_missing_scan_is_an_error():
    with pytest.raises(SceneError, match="attic"):
        SceneCache().get(question("attic", scan=False))


def test_free_space_is_built_once_and_counts_towards_the_limit():
    cache = SceneCache(load=Loader())
    space = cache.space(question("a"))
    assert cache.space(question("a")) is space
    assert space.bytes > 0
    small = SceneCache(2 * SIZE, load=Loader())
    small.get(question("b"))
    small.space(question("a"))
    small.get(question("b"))
    assert small.loads == 3


def test_concurrent_requests_load_a_scene_once():
    loader = Loader()
    barrier = threading.Barrier(8)
    gate = threading.Event()

    def slow(path, name):
        gate.wait(60)
        return loader(path, name)

    cache = SceneCache(load=slow)

    def ask(number):
        barrier.wait(60)
        if number == 0:
            gate.set()
        return cache.get(question("ab"[number % 2]))

    with ThreadPoolExecutor(8) as pool:
        scenes = list(pool.map(ask, range(8)))
    assert sorted(loader.names) == ["a", "b"]
    assert len({id(scene) for scene in scenes}) == 2


def test_threads_get_the_right_scenes_under_a_tight_limit():
    cache = SceneCache(SIZE, lambda path, name: as_scene(room()[0] + float(name), room()[1]))

    def ask(number):
        name = str(number % 5)
        return cache.get(question(name)).points[0, 0] == float(name)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(ask, range(200)))


def test_other_errors_are_raised_and_not_cached():
    attempts = []

    def load(path, name):
        attempts.append(name)
        if len(attempts) == 1:
            raise MemoryError
        return as_scene(*room())

    cache = SceneCache(load=load)
    with pytest.raises(MemoryError):
        cache.get(question("a"))
    assert len(cache.get(question("a")).points)


def test_scan_files_are_loaded_by_path(tmp_path):
    path = tmp_path / "scan.ply"
    path.write_bytes(mesh_ply(*room()))
    scene = SceneCache().get(SimpleNamespace(id="q", scene="kitchen", scan=path))
    assert scene.id == "kitchen"
    assert np.array_equal(scene.points, room()[0].astype(np.float32))
