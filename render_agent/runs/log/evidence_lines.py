"""What a line of `turns.jsonl` says of how its turn was chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from render_agent.dialogue.reply import from_json as action_from_json
from render_agent.dialogue.state import Ballot, Candidate, Evidence, Judgement, Tokens
from render_agent.geometry.camera import Camera
from render_agent.runs.log.view_lines import view_from_json, view_to_json


def evidence_to_json(evidence: Evidence) -> dict[str, Any]:
    """Return evidence as a line has it."""
    return {
        "agent": evidence.agent,
        "chosen": evidence.chosen,
        "candidates": [_candidate_to_json(candidate) for candidate in evidence.candidates],
        "weighed": list(evidence.weighed),
        "judgements": [asdict(judgement) for judgement in evidence.judgements],
        "fused": list(evidence.fused),
        "ballot": None if evidence.ballot is None else asdict(evidence.ballot),
        "wordings": list(evidence.wordings),
        "tokens": evidence.tokens.to_json(),
        "calls": evidence.calls,
    }


def evidence_from_json(data: Mapping[str, Any]) -> Evidence:
    """Return what `evidence_to_json` wrote. ValueError where it did not."""
    ballot = data["ballot"]
    evidence = Evidence(
        agent=data["agent"],
        candidates=tuple(_candidate_from_json(candidate) for candidate in data["candidates"]),
        chosen=data["chosen"],
        weighed=tuple(data["weighed"]),
        judgements=tuple(_judgement_from_json(found) for found in data["judgements"]),
        fused=tuple(data["fused"]),
        ballot=None if ballot is None else Ballot(**{**ballot, "votes": tuple(ballot["votes"])}),
        wordings=tuple(data["wordings"]),
        tokens=Tokens.from_json(data["tokens"]),
        calls=data["calls"],
    )
    _check(evidence)
    return evidence


def taken_from(evidence: Evidence, reply: str, camera: Camera) -> Evidence:
    """Return evidence that fits the reply and the pose of its turn; ValueError where it does not."""
    chosen = evidence.candidates[evidence.chosen]
    if (chosen.reply, chosen.camera) != (reply, camera):
        raise ValueError(
            f"the turn is not that of the candidate {chosen.number} that was chosen: the line was edited"
        )
    return evidence


def _check(evidence: Evidence) -> None:
    """Raise ValueError where evidence speaks of candidates that are not in it."""
    own = {c.number for c in evidence.candidates if c.follows is None}
    if [c.number for c in evidence.candidates] != list(range(len(evidence.candidates))):
        raise ValueError("candidates are not numbered from 0")
    followed = {c.follows for c in evidence.candidates} - {None}
    if not {evidence.chosen, *followed} <= own:
        raise ValueError("a candidate that is chosen or followed is not among those of the turn")
    if not set(evidence.weighed) <= set(range(len(evidence.candidates))):
        raise ValueError("a candidate that was weighed is not there")
    count = len(evidence.weighed)
    for judged in evidence.judgements:
        lengths = {len(judged.reasons), *map(len, judged.scores)}
        if lengths != {count} or len(judged.scores) != len(judged.members):
            raise ValueError(f"the scores of {judged.verifier} do not fit the candidates weighed")
    if len(evidence.fused) not in (0, count):
        raise ValueError("the fused scores do not fit the candidates weighed")


def _candidate_to_json(candidate: Candidate) -> dict[str, Any]:
    return {
        "number": candidate.number,
        "reply": candidate.reply,
        "action": candidate.action.to_json(),
        "happened": candidate.happened,
        "camera": candidate.camera.to_json(),
        "view": None if candidate.view is None else view_to_json(candidate.view),
        "group": candidate.group,
        "follows": candidate.follows,
    }


def _candidate_from_json(data: Mapping[str, Any]) -> Candidate:
    return Candidate(
        number=data["number"],
        reply=data["reply"],
        action=action_from_json(data["action"]),
        happened=data["happened"],
        camera=Camera.from_json(data["camera"]),
        view=None if data["view"] is None else view_from_json(data["view"]),
        group=data["group"],
        follows=data["follows"],
    )


def _judgement_from_json(data: Mapping[str, Any]) -> Judgement:
    def row(scores: Sequence[float | None]) -> tuple[float | None, ...]:
        return tuple(scores)

    return Judgement(
        verifier=data["verifier"],
        members=tuple(data["members"]),
        scores=tuple(row(scores) for scores in data["scores"]),
        reasons=tuple(data["reasons"]),
    )
