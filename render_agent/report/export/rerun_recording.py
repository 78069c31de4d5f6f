"""Export of a question's path through its scene as a Rerun recording."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.dialogue.state import STATUS_LABELS, QuestionState
from render_agent.dialogue.turn import Evidence, Turn
from render_agent.extras import require
from render_agent.report.candidate_scores import candidate_scores
from render_agent.scans.camera import Camera
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import Facts, place_facts
from render_agent.tasks.question_types import named_categories
from render_agent.util.contained_paths import image_path

# RGB colours
PATH = (217, 154, 43)
BOX = (31, 119, 180)
CHOSEN = (0, 114, 178)
REJECTED = (140, 148, 156)


def write_rerun(
    name: str,
    state: QuestionState,
    images: Path,
    scene: Scene | None,  # the scene; None if it was not shown or is missing
    facts: Facts | None,  # ground-truth boxes, in the scan's frame
    size: tuple[int, int],  # width and height of a view in pixels
    file: Path,
) -> None:
    """Write one question as a recording with the timelines `turn` and `view`, numbered as in the log."""
    require("a Rerun recording", "rerun")
    import rerun

    recording = rerun.RecordingStream("render_agent", recording_id=f"{name}/{state.id}")
    # `save` is not used because, if the disk is full, its writer thread ends and `disconnect` waits for it forever
    memory = recording.memory_recording()
    try:
        recording.send_blueprint(_blueprint(), make_active=False)
        recording.send_recording_name(f"{name}, question {state.id}")
        _log_question(recording, state)
        recording.log("world", rerun.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        if scene is not None:
            _log_scene(recording, scene)
            if facts is not None:
                _log_boxes(
                    recording, place_facts(facts, scene).boxes, named_categories(state.question)
                )
        for turn in state.turns:
            _log_turn(recording, state, turn, images, size)
        file.write_bytes(memory.drain_as_bytes())
    finally:
        recording.disconnect()


def _log_question(recording: Any, state: QuestionState) -> None:
    import rerun

    lines = [
        state.question.text,
        *state.question.options,
        f"Answer: {state.answer}",
        f"Ground truth: {state.question.ground_truth}",
        f"Status: {STATUS_LABELS[state.status]}",
    ]
    recording.log("question", rerun.TextDocument("\n".join(lines)), static=True)


def _log_scene(recording: Any, scene: Scene) -> None:
    import rerun

    surface = (
        rerun.Points3D(scene.points, colors=scene.colours, radii=0.01)
        if scene.faces is None
        else rerun.Mesh3D(
            vertex_positions=scene.points,
            triangle_indices=scene.faces,
            vertex_colors=scene.colours,
        )
    )
    recording.log("world/scene", surface, static=True)


def _log_boxes(recording: Any, boxes: Mapping[str, Any], categories: tuple[str, ...]) -> None:
    import rerun

    for label, group in boxes.items():
        if label.lower() not in categories:
            continue
        for number, box in enumerate(group):
            path = f"world/boxes/{rerun.escape_entity_path_part(label)}/{number}"
            transform = rerun.Transform3D(translation=box.centre, mat3x3=np.asarray(box.axes).T)
            shape = rerun.Boxes3D(half_sizes=[box.size / 2], labels=[label], colors=[BOX])
            recording.log(path, transform, shape, static=True)


def _log_turn(
    recording: Any, state: QuestionState, turn: Turn, images: Path, size: tuple[int, int]
) -> None:
    import rerun

    recording.set_time("turn", sequence=turn.number)
    for view in turn.views:
        recording.set_time("view", sequence=view.number)
        image = rerun.EncodedImage(
            contents=image_path(images, view.file).read_bytes(), media_type="image/png"
        )
        if view.kind == "ego" and isinstance(view.camera, Camera):
            _log_camera(recording, view.camera, size)
            recording.log("world/camera", image)
        else:
            recording.log(f"views/{view.kind}", image)
    positions = [state.turns[number].camera_before.position for number in range(turn.number + 1)]
    recording.log("world/path", rerun.LineStrips3D([positions], colors=[PATH], radii=0.02))
    recording.log("world/path/stood", rerun.Points3D(positions, colors=[PATH], radii=0.05))
    if turn.evidence is not None:
        _log_candidates(recording, turn.evidence)
    recording.log("replies", rerun.TextLog(turn.reply, level=rerun.TextLogLevel.INFO))
    if turn.restated is not None:
        recording.log("replies", rerun.TextLog(turn.restated.reply, level=rerun.TextLogLevel.INFO))
    if turn.feedback:
        recording.log("happened", rerun.TextLog(turn.feedback, level=rerun.TextLogLevel.DEBUG))


def _log_candidates(recording: Any, evidence: Evidence) -> None:
    """Log the pose of each candidate move as an arrow in the viewing direction; the chosen one is blue."""
    import rerun

    moves = [scored for scored in candidate_scores(evidence) if scored.candidate.continues_dialogue]
    cameras = [scored.candidate.camera for scored in moves]
    names = [s.name if s.fused is None else f"{s.name}: {s.fused:.2f}" for s in moves]
    arrows = rerun.Arrows3D(
        origins=np.array([camera.position for camera in cameras]).reshape(-1, 3),
        vectors=np.array([0.3 * camera.forward for camera in cameras]).reshape(-1, 3),
        colors=[CHOSEN if scored.chosen else REJECTED for scored in moves],
        labels=names,
    )
    recording.log("world/candidates", arrows)


def _log_camera(recording: Any, camera: Camera, size: tuple[int, int]) -> None:
    import rerun

    pose = camera.pose
    width, height = size
    recording.log(
        "world/camera",
        rerun.Transform3D(translation=pose[:3, 3], mat3x3=pose[:3, :3]),
        rerun.Pinhole(
            image_from_camera=camera.intrinsics(width, height),
            resolution=[width, height],
            camera_xyz=rerun.ViewCoordinates.RDF,
            image_plane_distance=0.4,
        ),
    )


def _blueprint() -> Any:
    from rerun import blueprint

    return blueprint.Blueprint(
        blueprint.Horizontal(
            blueprint.Spatial3DView(origin="world", name="camera path"),
            blueprint.Vertical(
                blueprint.Spatial2DView(origin="world/camera", name="view"),
                blueprint.Spatial2DView(origin="views/top", name="map"),
                blueprint.TextLogView(origin="/", name="replies"),
                blueprint.TextDocumentView(origin="question", name="question"),
            ),
            column_shares=[3, 2],
        )
    )
