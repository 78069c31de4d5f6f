"""What the 3D view of one question draws over the scan: its turns, their views, and the boxes that it names."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.view import View
from render_agent.render.around import cell_places, cell_size, direction_of
from render_agent.report.diagnosis.model import Diagnosis, TurnDiagnosis, name_of
from render_agent.scans.camera import Camera

EYE_MARGIN_METRES = 0.3
"""What lies higher than this above the highest camera, as a ceiling does, is cut off at first."""


def view_data(
    state: QuestionState,
    diagnosis: Diagnosis | None,
    size: tuple[int, int],
    pictures: str,
    *,
    passive: bool = False,
) -> dict[str, Any] | None:
    """Return the data of a question's 3D view, ready for JSON; None where it has no pose to show.

    size: width and height of its pictures. pictures: the way from its page to the folder that holds `views`.
    passive: whether its views were chosen for it: then each is a step of its own, in the place of a turn, beside the
    last reply.
    """
    if state.blind or not state.turns:
        return None
    boxes = () if diagnosis is None else diagnosis.boxes
    seen = {turn.turn: turn for turn in (diagnosis.turns if diagnosis else ())}
    steps: list[dict[str, Any]] = []
    for turn in state.turns:
        sightings = seen.get(turn.number, TurnDiagnosis(turn.number)).sightings
        shown = [view for view in turn.views if isinstance(view.camera, Camera)]
        groups = [[view] for view in shown] if passive else [shown]
        for views in groups:
            own = [s for s in sightings if not passive or s.view == views[0].number]
            replied = state.turns[-1] if passive else turn
            steps.append(
                {
                    "number": views[0].number if passive else turn.number + 1,
                    **_pose(views[0].camera if passive else turn.stood),
                    "said": " ".join(replied.reply.split())[:400],
                    "happened": replied.feedback,
                    "views": [part for view in views for part in _parts(view, size, pictures)],
                    "well": sorted({s.box for s in own if s.well(size)}),
                    "seen": sorted({s.box for s in own if s.area > 0}),
                }
            )
    if not steps:
        return None
    eye = max(step["position"][2] for step in steps)
    return {
        "size": size,
        "step": "View" if passive else "Turn",
        "turns": steps,
        "boxes": [
            {"name": name_of(box, boxes), "centre": box.centre, "size": box.size, "axes": box.axes}
            for box in boxes
        ],
        "cut": eye + EYE_MARGIN_METRES,
    }


def _parts(view: View, size: tuple[int, int], pictures: str) -> list[dict[str, Any]]:
    """Return what was taken by a camera in a view: all of it, or the four directions of one all around.

    part: left, top, width and height in pixels of the view's picture. None of a kind that is a package's own, since
    nobody knows where in its picture the camera's is.
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
    return [{"file": pictures + view.file, "part": part, **_pose(own)} for own, part in parts]


# A turn stands where its view was taken, and many questions begin at the same place.
@lru_cache(maxsize=1024)
def _pose(camera: Camera) -> dict[str, Any]:
    """Return where a camera is and how it looks: metres, unit vectors, the vertical angle in degrees."""
    axes = camera.pose[:3].tolist()
    return {
        "position": [round(value, 4) for value in camera.position],
        "forward": [round(forward, 6) for _, _, forward, _ in axes],
        "up": [round(-down, 6) for _, down, _, _ in axes],
        "fov": camera.vertical_fov,
    }
