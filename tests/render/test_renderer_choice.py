"""Choosing a renderer, checking its requirements, and caching compiled kernels."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from factories.rooms import as_cloud, room
from factories.splats import random_splat

from render_agent.errors import SetupError
from render_agent.render import make_renderer as choose
from render_agent.render.rasteriser import (
    blocks,
    face_colours,
    kernels,
    morton,
    zbuffer,
)
from render_agent.render.rasteriser import point_splats as splats
from render_agent.render.rasteriser.gaussians import blending, ewa
from render_agent.render.rasteriser.rasteriser import Rasteriser, compile_kernels
from render_agent.scans.camera import Camera, MapCamera


def test_default_is_the_rasteriser():
    renderer = choose.make_renderer()
    assert isinstance(renderer, Rasteriser)
    renderer.close()


def test_unknown_renderer_error_lists_the_known_ones():
    with pytest.raises(SetupError, match="rasteriser, pyrender"):
        choose.make_renderer("crayon")


def test_missing_library_is_named(monkeypatch):
    monkeypatch.setattr(choose.ctypes.util, "find_library", lambda _: None)
    with pytest.raises(SetupError, match=r"libEGL.*libegl1"):
        choose.make_renderer("pyrender")


def test_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("render_agent.extras.find_spec", lambda _: None)
    with pytest.raises(SetupError, match=r"pyrender.*pip install"):
        choose.make_renderer("pyrender")


MODULES = (blocks, morton, zbuffer, face_colours, splats, blending, ewa)


def count_compilations():
    """Return how often each kernel was compiled."""
    return {
        f"{module.__name__}.{name}": len(kernel.signatures)
        for module in MODULES
        for name, kernel in vars(module).items()
        if hasattr(kernel, "signatures")
    }


def test_compile_kernels_covers_all_kernels():
    compile_kernels()
    before = count_compilations()
    renderer, scene = Rasteriser(threads=2), room()
    for each in (scene, as_cloud(scene, spacing=0.1), random_splat(50)):
        for camera in (Camera((0.0, 0.0, 1.5)), MapCamera((0.0, 0.0), 2.0, 0.02)):
            renderer.draw(each, camera, 160, 120)
    renderer.close()
    assert count_compilations() == before


def test_cache_name_depends_on_every_file_with_kernels():
    folder = Path(kernels.__file__).parent
    files = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.py")}
    with_kernels = {name for name, text in files.items() if "\n@kernel\n" in text}
    assert with_kernels | {"kernels.py"} == set(kernels.SOURCES)


def test_cache_is_optional_if_the_home_is_not_writable(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("")
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(blocked), "NUMBA_DISABLE_JIT": "1"}
    code = "from render_agent.render.rasteriser import kernels; assert kernels.FOLDER is None"
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_cache_is_in_the_users_cache_folder(tmp_path):
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(tmp_path)}
    code = "from render_agent.render.rasteriser import kernels; print(kernels.FOLDER)"
    process = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    assert process.stdout.startswith(str(tmp_path / "render_agent" / "numba-"))
