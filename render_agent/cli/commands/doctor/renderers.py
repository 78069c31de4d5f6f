"""Checks of renderers: each renders a triangle in a subprocess."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from render_agent import registry
from render_agent.cli.commands.doctor.checks import Check, ProbeResult, run_probe
from render_agent.options import OPTIONS

PART = "renderers"
DEFAULT = str(OPTIONS["renderer"].default)
SECONDS = 180.0  # timeout per renderer, which may have to compile kernels first


def renderer_checks() -> Iterator[Check]:
    """Check every renderer, the default first."""
    names = registry.built_in("renderer")
    yield from map(_renderer_check, names)


def _renderer_check(name: str) -> Check:
    answer = run_probe(__name__, "draw_once", name, seconds=SECONDS)
    default = name == DEFAULT
    if answer.error is None:
        return Check(PART, name, True, _detail(answer, default), needed=default)
    remedy = "reinstall: make setup" if default else f"use --renderer {DEFAULT}, the default"
    remedy = "" if answer.explained else remedy
    return Check(PART, name, False, answer.error, remedy, needed=default)


def _detail(answer: ProbeResult, default: bool) -> str:
    figures = answer.result
    detail = f"rendered a triangle in {1000 * figures['seconds']:.1f} ms on {figures['device']}"
    if not default:
        return detail
    if figures["kernels"] is None:
        return f"{detail}; the kernel cache is not writable, so every run compiles kernels again"
    since = "before" if figures["compiled"] else f"just now, in {figures['first_seconds']:.0f} s"
    return f"default; {detail}; kernels compiled {since} ({figures['kernels']})"


def draw_once(name: str) -> dict[str, Any]:
    """Render a red triangle and return the time it took. Raises RuntimeError."""
    import numpy as np

    from render_agent.render.make_renderer import make_renderer
    from render_agent.scans.camera import Camera
    from render_agent.scans.scene import Scene

    corners = np.array([[2, -2, -2], [2, 2, -2], [2, 0, 2]], np.float32)
    bounds = np.array([corners.min(axis=0), corners.max(axis=0)], np.float64)
    colours = np.tile(np.array([[200, 30, 60]], np.uint8), (3, 1))
    faces = np.array([[0, 1, 2]], np.int32)
    scene = Scene("triangle", corners, colours, faces, -2.0, 2.0, bounds)
    figures = _kernels() if name == DEFAULT else {}
    renderer = make_renderer(name)
    figures["device"] = getattr(renderer, "device", "the CPU")
    figures["first_seconds"], _ = _time_drawing(
        lambda: renderer.draw(scene, Camera((0, 0, 0)), 64, 48)
    )
    figures["seconds"], frame = _time_drawing(
        lambda: renderer.draw(scene, Camera((0, 0, 0)), 64, 48)
    )
    middle = frame.colours[24, 32]
    if not np.array_equal(middle, colours[0]) or abs(frame.depth[24, 32] - 2) > 1e-2:
        raise RuntimeError(f"rendered the colour {middle.tolist()}, not {colours[0].tolist()}")
    return figures


def _kernels() -> dict[str, Any]:
    """Return the folder of the compiled-kernel cache, and whether it contains any."""
    from render_agent.render.rasteriser.kernels import cache_folder

    folder = cache_folder()
    is_cached = folder is not None and any(folder.rglob("*.nbc"))
    return {"kernels": None if folder is None else str(folder), "compiled": is_cached}


def _time_drawing(draw: Any) -> tuple[float, Any]:
    start = time.perf_counter()
    frame = draw()
    return time.perf_counter() - start, frame
