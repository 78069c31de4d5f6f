"""Overlay data for the 3D view of a question: turns, views and named boxes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from render_agent.dialogue.chat import View
from render_agent.dialogue.state import QuestionState
from render_agent.render.around import cell_places, cell_size, direction_of
from render_agent.report.diagnosis.model import Diagnosis, TurnDiagnosis, name_of
from render_agent.scans.camera import Camera

# The scene is initially cut this far above the highest camera to hide the ceiling.
EYE_MARGIN_METRES = 0.3


def view_data(
    state: QuestionState,
    diagnosis: Diagnosis | None,
    size: tuple[int, int],  # width and height of its images in pixels
    image_root: str,
    *,
    passive: bool = False,
) -> dict[str, Any] | None:
    """Return the JSON-serializable data of a question's 3D view; None if it has no poses."""
    if state.blind or not state.turns:
        return None
    boxes = () if diagnosis is None else diagnosis.boxes
    diagnoses = {turn.turn: turn for turn in (diagnosis.turns if diagnosis else ())}
    steps: list[dict[str, Any]] = []
    for turn in state.turns:
        sightings = diagnoses.get(turn.number, TurnDiagnosis(turn.number)).sightings
        camera_views = [view for view in turn.views if isinstance(view.camera, Camera)]
        groups = [[view] for view in camera_views] if passive else [camera_views]
        for views in groups:
            step_sightings = [s for s in sightings if not passive or s.view == views[0].number]
            reply_turn = state.turns[-1] if passive else turn
            steps.append(
                {
                    "number": views[0].number if passive else turn.number + 1,
                    **_pose(views[0].camera if passive else turn.camera_before),
                    "said": " ".join(reply_turn.reply.split())[:400],
                    "happened": reply_turn.feedback,
                    "views": [part for view in views for part in _parts(view, size, image_root)],
                    "well": sorted({s.box for s in step_sightings if s.is_clear(size)}),
                    "seen": sorted({s.box for s in step_sightings if s.area > 0}),
                }
            )
    if not steps:
        return None
    eye_height = max(step["position"][2] for step in steps)
    return {
        "size": size,
        "step": "View" if passive else "Turn",
        "turns": steps,
        "boxes": [
            {"name": name_of(box, boxes), "centre": box.centre, "size": box.size, "axes": box.axes}
            for box in boxes
        ],
        "cut": eye_height + EYE_MARGIN_METRES,
    }


def _parts(view: View, size: tuple[int, int], image_root: str) -> list[dict[str, Any]]:
    """Return the perspective images in a view: one, or the four directions of an `around` view.

    `part` is (left, top, width, height) in pixels. Views of other kinds are skipped, because the layout of their images
    is unknown.
    """
    camera = view.camera
    if not isinstance(camera, Camera) or view.kind not in ("ego", "around"):
        return []
    parts = [(camera, (0, 0, *size))]
    if view.kind == "around":
        parts = [
            (direction_of(camera, size, number), (*place, *cell_size(size)))
            for number, place in enumerate(cell_places(size))
        ]
    return [
        {"file": image_root + view.file, "part": part, **_pose(part_camera)}
        for part_camera, part in parts
    ]


# Cached because turns and views often have the same pose, and many questions start at the same pose.
@lru_cache(maxsize=1024)
def _pose(camera: Camera) -> dict[str, Any]:
    """Return the position in metres, the axes as unit vectors, and the vertical field of view in degrees."""
    axes = camera.pose[:3].tolist()
    return {
        "position": [round(value, 4) for value in camera.position],
        "forward": [round(forward, 6) for _, _, forward, _ in axes],
        "up": [round(-down, 6) for _, down, _, _ in axes],
        "fov": camera.vertical_fov,
    }
