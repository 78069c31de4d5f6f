"""The same views of a scene in the scans of several runs, side by side: does a mesh hide what a splat shows?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from render_agent.analysis.report.comparison.runs import ComparedRun, Comparison
from render_agent.analysis.report.maps.floor_plan import cameras_of
from render_agent.analysis.report.question.question_page import plans_of
from render_agent.dialogue.state import QuestionState, SceneSource
from render_agent.errors import RenderError, SceneError
from render_agent.geometry.camera import Camera
from render_agent.observation.picture_store import safe_name
from render_agent.render.png import encode
from render_agent.render.registry import make_renderer
from render_agent.render.views import Viewer
from render_agent.system.whole_files import write_whole
from render_agent.text.display import tracked

MAX_VIEWS = 3
"""Views of a scene, chosen evenly from all places that the first run showed, beside its map."""


@dataclass(frozen=True, slots=True)
class ScanPair:
    """One scene in the scans of several runs.

    scans: of each run what was read, or why it cannot be drawn. views: a list of pictures for every view,
    relative to the comparison's folder, None where a run's cannot be drawn.
    """

    scene: str
    scans: Sequence[str]
    views: Sequence[Sequence[str | None]]


def scan_pairs(comparison: Comparison, folder: Path) -> list[ScanPair]:
    """Draw the scenes of which the runs read different scans; RunLogError where a picture cannot be written."""
    states: list[dict[str, list[QuestionState]]] = []
    for run in comparison.runs:
        by_scene: dict[str, list[QuestionState]] = {}
        for state in run.report.states:
            if not state.blind:
                by_scene.setdefault(state.question.scene, []).append(state)
        states.append(by_scene)
    shared = [scene for scene in states[0] if all(scene in own for own in states)]
    differing = [s for s in shared if len({own[s][0].question.scan for own in states}) > 1]
    if not differing:
        return []
    sources = [plans_of(run.report, folder).scenes for run in comparison.runs]
    config = comparison.runs[0].report.config
    viewer = Viewer(make_renderer("rasteriser"), config.image_size, config.field_of_view)
    with closing(viewer):
        return [
            _pair(scene, [own[scene] for own in states], comparison.runs, sources, viewer, folder)
            for scene in tracked(differing, "drawing scans")
        ]


def _pair(
    scene: str,
    states: Sequence[Sequence[QuestionState]],
    runs: Sequence[ComparedRun],
    sources: Sequence[SceneSource],
    viewer: Viewer,
    folder: Path,
) -> ScanPair:
    poses = list(dict.fromkeys(camera for state in states[0] for camera in cameras_of(state)))
    chosen = poses[:: -(-len(poses) // MAX_VIEWS)] if poses else []
    lines: list[str] = []
    columns: list[list[str | None]] = []
    for run, own, source in zip(runs, states, sources, strict=True):
        place = f"scans/{safe_name(scene)}-{run.letter.lower()}"
        try:
            read = source.get(own[0].question)
            pictures = [viewer.top(read, chosen[0] if chosen else None)]
            pictures += [viewer.ego(read, _as_seen_by(camera, viewer)) for camera in chosen]
        except (SceneError, RenderError) as error:
            lines.append(str(error))
            columns.append([None] * (1 + len(chosen)))
            continue
        lines.append("; ".join(read.description))
        files = [f"{place}-{number}.png" for number in range(len(pictures))]
        for file, picture in zip(files, pictures, strict=True):
            write_whole(folder / file, encode(picture.picture), durable=False)
        columns.append([*files])
    return ScanPair(scene, lines, list(zip(*columns, strict=True)))


def _as_seen_by(camera: Camera, viewer: Viewer) -> Camera:
    """Return the pose with the field of view of the viewer's own pictures."""
    return Camera(camera.position, camera.yaw, camera.pitch, viewer.vertical_fov)
