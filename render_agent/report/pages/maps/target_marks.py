"""Overlay of a target on a floor plan: its pose, and the shortest path to it."""

from __future__ import annotations

from typing import NamedTuple

from render_agent.dialogue.state import QuestionState
from render_agent.errors import RenderAgentError
from render_agent.report.pages.maps.floor_plan import ScenePlan
from render_agent.report.pages.maps.path_marks import Pixel, field_of_view, svg_points
from render_agent.scans.cache import SceneCache
from render_agent.scans.camera import Camera, Vector, vertical_from_horizontal
from render_agent.scans.free_space.shortest_path import ShortestPaths
from render_agent.views.targets import target_camera


class TargetPath(NamedTuple):
    """A target in the scene, and the places of the shortest path to it."""

    camera: Camera
    places: list[Vector]


class TargetMarks(NamedTuple):
    """A target on a floor plan."""

    pixel: Pixel
    wedge: str
    """Field of view as an SVG path."""
    line: str
    """Shortest path in SVG syntax; empty if there is none."""


def target_path(
    state: QuestionState,
    scenes: SceneCache,
    image_size: tuple[int, int],  # width and height of its views in pixels
    horizontal_fov: float,
) -> TargetPath | None:
    """Return the target of a question; None if it has none or its scan cannot be read."""
    if not state.target_errors:
        return None
    try:
        scene, space = scenes.get(state.question), scenes.space(state.question)
    except RenderAgentError:
        return None
    camera = target_camera(
        state.question, scene, vertical_from_horizontal(horizontal_fov, *image_size)
    )
    path = ShortestPaths(space, camera.position).waypoints(state.turns[0].camera_before.position)
    places = [] if path is None else [(float(x), float(y), float(z)) for x, y, z in path]
    return TargetPath(camera, places)


def target_marks(target: TargetPath, plan: ScenePlan, image_size: tuple[int, int]) -> TargetMarks:
    """Lay out a target on the plan of its scene."""
    camera, pixel = target.camera, plan.pixel(target.camera.position)
    wedge = field_of_view(pixel, camera.yaw, camera.horizontal_fov(*image_size))
    pixels = [plan.pixel(place) for place in target.places]
    return TargetMarks(pixel, wedge, svg_points(pixels) if len(pixels) > 1 else "")
