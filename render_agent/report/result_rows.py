"""Tables of a run for exports, data frames and reports: one row per question or turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from msgspec import Struct, structs

from render_agent.dialogue.moves import Outcome
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Turn
from render_agent.report.candidate_scores import candidate_scores
from render_agent.report.diagnosis.model import Diagnosis, TurnDiagnosis
from render_agent.runs.log.columns import Column, columns_of
from render_agent.runs.log.row import Cost, Row, cost_of
from render_agent.runs.read import RunData
from render_agent.scans.camera import Camera
from render_agent.util.display import track

# Diagnoses by question id; a question without one has empty cells.
Diagnoses = Mapping[str, Diagnosis]
Rows = Callable[[RunData, Diagnoses], Iterator[dict[str, Any]]]  # yields the rows of one table


class RunColumns(Struct, frozen=True):
    """Columns that identify the run. All except `run` and `model` are options."""

    run: str
    benchmark: str
    subset: str
    engine: str
    model: str
    revision: str | None
    views: str
    tools: str
    image_stress: str
    view_types: str
    start: str
    image_width: int
    image_height: int
    field_of_view: float
    max_turns: int
    temperature: float
    seed: int
    agent: str
    verifier: str | None


class DiagnosisColumns(Struct, frozen=True, kw_only=True):
    """Columns of a question's diagnosis."""

    cause: Annotated[str | None, Column("Cause", cell="text", wide_only=True, filter=True)] = None
    named: str | None = None
    never_seen: str | None = None
    coverage: Annotated[
        float | None, Column("Room seen (%)", cell="number", wide_only=True, decimals=0)
    ] = None
    path_metres: float | None = None
    blocked: int | None = None
    returns: int | None = None


class TurnRow(Cost, frozen=True, kw_only=True):
    """A turn of a run. `coverage` and the columns after it come from the diagnosis."""

    run: str
    question_id: str
    type: str
    dataset: str
    scene: str
    turn: int
    phase: str
    views: str | None
    """Number and kind of each view, such as "0:top,1:ego"."""
    stood_x: float
    """Pose from which the views were taken, in metres and degrees."""
    stood_y: float
    stood_z: float
    stood_yaw: float
    stood_pitch: float
    camera_x: float
    """Pose after the turn."""
    camera_y: float
    camera_z: float
    camera_yaw: float
    camera_pitch: float
    reply: str
    malformed: str | None
    answer: str | None
    done: bool
    happened: str
    rotation_degrees: float | None = None
    """Rotation before the move, positive to the left; empty if no action was carried out."""
    requested_forward_metres: float | None = None
    """Attempted distance, after clamping to the limits of a turn."""
    requested_left_metres: float | None = None
    requested_up_metres: float | None = None
    moved_forward_metres: float | None = None
    """Distance that the camera moved."""
    moved_left_metres: float | None = None
    moved_up_metres: float | None = None
    limits: str | None = None
    """Fields of the reply whose values were clamped, such as "forward_meters,pitch_degrees"."""
    level_obstacle: str | None = None
    vertical_obstacle: str | None = None
    batch_size: int
    finish: str | None
    events: str | None
    candidates: int | None = None
    """Number of candidates; None for a turn with one reply."""
    chosen: int | None = None
    """Number of the chosen candidate, from 0."""
    chosen_score: float | None = None
    """Fused score of the chosen candidate."""
    coverage: float | None = None
    path_metres: float | None = None
    turned_degrees: float | None = None
    blocked: bool | None = None
    returned: bool | None = None
    largest_share: float | None = None
    """Visible share of the most visible named object, 0 to 1."""
    largest_area: float | None = None
    """Pixels of the most visible named object."""


QUESTION_COLUMNS = (
    *columns_of(RunColumns)[:1],
    *columns_of(Row),
    *columns_of(RunColumns)[1:],
    *columns_of(DiagnosisColumns),
)
TURN_COLUMNS = columns_of(TurnRow)


def questions_with_progress(run: RunData) -> Iterator[tuple[QuestionState, Row]]:
    """Yield every question of a run with its row, with a progress bar."""
    for state in track(run.dialogues, f"exporting {run.name}"):
        yield state, run.rows[state.id]


def question_rows(run: RunData, diagnoses: Diagnoses) -> Iterator[dict[str, Any]]:
    """Yield one row with QUESTION_COLUMNS per question."""
    options = structs.asdict(_run_columns(run))
    for state, row in questions_with_progress(run):
        diagnosis = diagnosis_columns(diagnoses.get(state.id))
        yield structs.asdict(row) | options | structs.asdict(diagnosis)


def turn_rows(run: RunData, diagnoses: Diagnoses) -> Iterator[dict[str, Any]]:
    """Yield one row with TURN_COLUMNS per turn."""
    for state, row in questions_with_progress(run):
        diagnosis = diagnoses.get(state.id)
        by_turn = {} if diagnosis is None else {turn.turn: turn for turn in diagnosis.turns}
        for turn in state.turns:
            yield structs.asdict(_turn_row(run.name, row, turn, by_turn.get(turn.number)))


def diagnosis_columns(diagnosis: Diagnosis | None) -> DiagnosisColumns:
    """Return the columns of a diagnosis; all None if there is none."""
    if diagnosis is None:
        return DiagnosisColumns()
    return DiagnosisColumns(
        cause=str(diagnosis.cause),
        named=", ".join(diagnosis.named) or None,
        never_seen=", ".join(diagnosis.never_seen) or None,
        coverage=diagnosis.coverage,
        path_metres=diagnosis.path,
        blocked=diagnosis.blocked,
        returns=diagnosis.returns,
    )


def _run_columns(run: RunData) -> RunColumns:
    config = run.config
    width, height = config.image_size
    values: dict[str, Any] = {
        "run": run.name,
        "model": run.model,
        "view_types": ",".join(config.view_types),
        "verifier": ",".join(verifier.label for verifier in run.parts.verifiers) or None,
        "image_width": width,
        "image_height": height,
    }
    options = {
        name: getattr(config, name) for name in RunColumns.__struct_fields__ if name not in values
    }
    return RunColumns(**options, **values)


def _turn_row(run: str, row: Row, turn: Turn, diagnosis: TurnDiagnosis | None) -> TurnRow:
    action = turn.action
    return TurnRow(
        run=run,
        question_id=row.question_id,
        type=row.type,
        dataset=row.dataset,
        scene=row.scene,
        turn=turn.number,
        phase=turn.phase,
        views=",".join(f"{view.number}:{view.kind}" for view in turn.views) or None,
        reply=turn.reply,
        malformed=action.reason if isinstance(action, Malformed) else None,
        answer=turn.answer,
        done=not isinstance(action, Malformed) and action.done,
        happened=turn.feedback,
        batch_size=turn.batch_size,
        finish=turn.finish,
        events=",".join(turn.events) or None,
        **_pose("stood", turn.camera_before),
        **_pose("camera", turn.camera),
        **cost_of([turn]),
        **_outcome(turn.outcome),
        **_choice(turn),
        **({} if diagnosis is None else _turn_diagnosis(diagnosis)),
    )


def _pose(name: str, camera: Camera) -> dict[str, Any]:
    values = (*camera.position, camera.yaw, camera.pitch)
    parts = ("x", "y", "z", "yaw", "pitch")
    return {f"{name}_{part}": value for part, value in zip(parts, values, strict=True)}


def _outcome(outcome: Outcome | None) -> dict[str, Any]:
    if outcome is None:
        return {}
    steps = {
        f"{name}_{axis}_metres": metres
        for name, values in (("requested", outcome.requested), ("moved", outcome.moved))
        for axis, metres in zip(("forward", "left", "up"), values, strict=True)
    }
    return {
        "rotation_degrees": outcome.turned,
        **steps,
        "limits": ",".join(outcome.limits) or None,
        "level_obstacle": outcome.level_obstacle,
        "vertical_obstacle": outcome.vertical_obstacle,
    }


def _choice(turn: Turn) -> dict[str, Any]:
    if turn.evidence is None:
        return {}
    choice = candidate_scores(turn.evidence)[turn.evidence.chosen]
    return {
        "candidates": len(turn.evidence.candidates),
        "chosen": choice.candidate.number,
        "chosen_score": choice.fused,
    }


def _turn_diagnosis(diagnosis: TurnDiagnosis) -> dict[str, Any]:
    best_sighting = max(diagnosis.sightings, key=lambda sighting: sighting.share, default=None)
    return {
        "coverage": diagnosis.coverage,
        "path_metres": diagnosis.path,
        "turned_degrees": diagnosis.turned,
        "blocked": diagnosis.blocked,
        "returned": diagnosis.returned,
        "largest_share": None if best_sighting is None else best_sighting.share,
        "largest_area": None if best_sighting is None else best_sighting.area,
    }
