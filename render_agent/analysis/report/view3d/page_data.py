"""What the 3D view of one question draws over the scan: its turns, their views, and the boxes that it names."""

from __future__ import annotations

from typing import Any

from render_agent.analysis.diagnosis.model import Diagnosis, TurnDiagnosis
from render_agent.analysis.report.maps.path_marks import name_of
from render_agent.dialogue.state import QuestionState
from render_agent.geometry.camera import Camera

EYE_MARGIN_METRES = 0.3
"""What lies higher than this above the highest camera, as a ceiling does, is cut off at first."""


def view_data(
    state: QuestionState, diagnosis: Diagnosis | None, size: tuple[int, int], pictures: str
) -> dict[str, Any] | None:
    """Return the data of a question's 3D view, ready for JSON; None where it has no pose to show.

    size: width and height of its pictures. pictures: the way from its page to the folder that holds `views`.
    """
    if state.blind or not state.turns:
        return None
    boxes = () if diagnosis is None else diagnosis.boxes
    seen = {turn.turn: turn for turn in (diagnosis.turns if diagnosis else ())}
    turns = []
    for turn in state.turns:
        sightings = seen.get(turn.number, TurnDiagnosis(turn.number)).sightings
        own = [
            view for view in turn.views if view.kind == "ego" and isinstance(view.camera, Camera)
        ]
        turns.append(
            {
                "number": turn.number + 1,
                **_pose(turn.stood),
                "said": " ".join(turn.reply.split())[:400],
                "happened": turn.feedback,
                "views": [{"file": pictures + view.file, **_pose(view.camera)} for view in own],  # type: ignore[arg-type]
                "well": sorted({s.box for s in sightings if s.well(size)}),
                "seen": sorted({s.box for s in sightings}),
            }
        )
    eye = max(turn["position"][2] for turn in turns)
    return {
        "size": size,
        "turns": turns,
        "boxes": [
            {"name": name_of(box, boxes), "centre": box.centre, "size": box.size, "axes": box.axes}
            for box in boxes
        ],
        "cut": eye + EYE_MARGIN_METRES,
    }


def _pose(camera: Camera) -> dict[str, Any]:
    """Return where a camera is and how it looks: metres, unit vectors, the vertical angle in degrees."""
    axes = camera.pose[:3].tolist()
    return {
        "position": [round(value, 4) for value in camera.position],
        "forward": [round(forward, 6) for _, _, forward, _ in axes],
        "up": [round(-down, 6) for _, down, _, _ in axes],
        "fov": camera.vertical_fov,
    }
