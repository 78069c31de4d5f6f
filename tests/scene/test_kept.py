"""What is made of a scene is kept by what it is, not by what it is called or where it lies."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from factories.splats import some_splat
from factories.textures import chequered_room

from render_agent.scene.kept import kept_of
from render_agent.system.kept_files import FOLDER_VARIABLE


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "kept"))


def is_made(scene, what="a picture"):
    calls = []
    kept_of(scene, what, lambda: calls.append(1) or b"made")
    return bool(calls)


def copied(scene):
    return replace(
        scene, points=scene.points.copy(), id="other", source=Path("other"), notes=("!",)
    )


@pytest.mark.parametrize("make", [chequered_room, some_splat])
def test_a_scene_is_known_again(make):
    scene = make()
    assert is_made(scene)
    assert not is_made(scene)
    assert not is_made(copied(scene))
    assert is_made(copied(scene), "something else")


def touched(values):
    """Return an array with its last number changed a little."""
    changed = values.copy()
    changed.flat[-1] = 0 if changed.flat[-1] else 1
    return changed


CHANGES = {
    "points": touched,
    "colours": touched,
    "faces": lambda faces: faces[::-1].copy(),
    "bounds": touched,
    "floor": lambda height: float(np.nextafter(height, 9)),
    "ceiling": lambda height: float(np.nextafter(height, 9)),
    "mirrored_at": lambda none: 0.0,
    "texture": lambda texture: replace(texture, uv=touched(texture.uv)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_scene_that_differs_is_another(name):
    scene = chequered_room()
    is_made(scene)
    changed = replace(scene, **{name: CHANGES[name](getattr(scene, name))})
    assert is_made(changed)


def test_pictures_of_materials_and_shapes_of_splats_tell_scenes_apart():
    scene, splat = chequered_room(), some_splat()
    is_made(scene)
    is_made(splat)
    first, *others = scene.texture.materials
    material = replace(first, picture=touched(first.picture))
    assert is_made(replace(scene, texture=replace(scene.texture, materials=(material, *others))))
    shapes = splat.gaussians
    assert is_made(replace(splat, gaussians=replace(shapes, opacities=touched(shapes.opacities))))
    assert is_made(replace(splat, gaussians=None))
