"""The candidates of turns as rows: a row a candidate and member that scored it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from render_agent.analysis.export.columns import Columns
from render_agent.analysis.export.result_rows import Diagnoses
from render_agent.analysis.export.selection import ChosenRun
from render_agent.dialogue.candidates import Standing, members, standings
from render_agent.dialogue.reply import Malformed
from render_agent.dialogue.state import Evidence, Turn

COLUMNS_OF_CANDIDATES: Columns = {
    "run": "text",
    "question_id": "text",
    "type": "text",
    "dataset": "text",
    "scene": "text",
    "turn": "int",
    "agent": "text",
    "candidate": "int",
    "follows": "int",
    "wording": "int",
    "chosen": "bool",
    "verifier": "text",
    "member": "text",
    "score": "float",
    "fused": "float",
    "reason": "text",
    "reply": "text",
    "malformed": "text",
    "answer": "text",
    "done": "bool",
    "happened": "text",
    "view": "text",
    "camera_x": "float",
    "camera_y": "float",
    "camera_z": "float",
    "camera_yaw": "float",
    "camera_pitch": "float",
}
"""Candidates are counted from 0 within their turn. follows: the candidate that one goes on from. A candidate
that nobody scored has one row without a verifier. view: the file of what it would show, relative to the run
folder."""


def candidate_rows(run: ChosenRun, diagnoses: Diagnoses) -> Iterator[dict[str, Any]]:
    """Give the rows of every candidate of the chosen questions of a run; none of turns with one reply.

    diagnoses: not needed, as what was not shown is not diagnosed.
    """
    del diagnoses
    for state, row in zip(run.states, run.rows, strict=True):
        for turn in state.turns:
            if turn.evidence is None:
                continue
            named = {name: row[name] for name in ("question_id", "type", "dataset", "scene")}
            for standing in standings(turn.evidence):
                shared = {"run": run.name, **named, **_candidate(turn, turn.evidence, standing)}
                for scored in _scores(turn.evidence, standing):
                    yield {**shared, **scored}


def _candidate(turn: Turn, evidence: Evidence, standing: Standing) -> dict[str, Any]:
    candidate = standing.candidate
    action, camera = candidate.action, candidate.camera
    pose = (*camera.position, camera.yaw, camera.pitch)
    return {
        "turn": turn.number,
        "agent": evidence.agent,
        "candidate": candidate.number,
        "follows": candidate.follows,
        "wording": candidate.group,
        "chosen": standing.chosen,
        "fused": standing.fused,
        "reply": candidate.reply,
        "malformed": action.reason if isinstance(action, Malformed) else None,
        "answer": action.answer,
        "done": False if isinstance(action, Malformed) else action.done,
        "happened": candidate.feedback,
        "view": None if candidate.view is None else candidate.view.file,
        **{
            f"camera_{part}": value
            for part, value in zip(("x", "y", "z", "yaw", "pitch"), pose, strict=True)
        },
    }


def _scores(evidence: Evidence, standing: Standing) -> Iterator[dict[str, Any]]:
    """Give what every member said of a candidate; why nobody did where that is so."""
    if not standing.scores:
        yield {"reason": standing.why}
        return
    reasons = dict(standing.reasons)
    for member, score in zip(members(evidence), standing.scores, strict=True):
        yield {
            "verifier": member.verifier,
            "member": member.name,
            "score": score,
            "reason": reasons.get(member.verifier),
        }
