"""Scores and reasons of each candidate reply of a turn, for pages, tables and exports."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.turn import Candidate, Evidence
from render_agent.util.display import join_names


@dataclass(frozen=True, slots=True)
class ScoreColumn:
    """A verifier, or one member of a verifier ensemble, listed in the order of the scores."""

    verifier: str
    name: str

    @property
    def label(self) -> str:
        """The verifier's name, followed by the member's name if they differ."""
        return self.verifier if self.name == self.verifier else f"{self.verifier} {self.name}"


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """A candidate with its scores."""

    candidate: Candidate
    chosen: bool
    scores: tuple[float | None, ...]
    """One score per member, None if the member could not score the candidate; empty if the candidate was not scored."""
    fused: float | None
    reasons: tuple[tuple[str, str], ...]
    """(verifier, reason) pairs."""
    why: str | None
    """Why this candidate was not scored although others were."""

    @property
    def name(self) -> str:
        """Number from 1, as in the name of its image file."""
        return str(self.candidate.number + 1)


def members(evidence: Evidence) -> tuple[ScoreColumn, ...]:
    """Return the verifiers, or their members, that scored the candidates of a turn."""
    return tuple(
        ScoreColumn(judgement.verifier, name)
        for judgement in evidence.judgements
        for name in judgement.members
    )


def candidate_scores(evidence: Evidence) -> list[CandidateScore]:
    """Return all candidates of a turn with their scores."""
    rows = {number: row for row, number in enumerate(evidence.weighed)}
    fused_scores = dict(zip(evidence.weighed, evidence.fused, strict=False))
    result = []
    for candidate in evidence.candidates:
        number, is_scored = candidate.number, candidate.number in rows
        row, judgements = rows.get(number, 0), evidence.judgements if is_scored else ()
        result.append(
            CandidateScore(
                candidate,
                chosen=number == evidence.chosen,
                scores=tuple(scores[row] for part in judgements for scores in part.scores),
                fused=fused_scores.get(number),
                reasons=tuple((j.verifier, j.reasons[row]) for j in judgements if j.reasons[row]),
                why=_why_unscored(candidate) if rows and not is_scored else None,
            )
        )
    return result


def explain_choice(evidence: Evidence) -> str:
    """Return a sentence about how the reply of a turn was chosen."""
    verifiers = join_names([judgement.verifier for judgement in evidence.judgements])
    candidates = evidence.candidates
    count = len(candidates)
    choice = candidates[evidence.chosen]
    number = choice.number + 1
    if evidence.ballot is not None:
        return f"{count} replies voted; the most frequent answer was {evidence.ballot.winner}."
    if evidence.fused:
        return f"Reply {number} of {count} was chosen by {verifiers}."
    if evidence.judgements:
        return f"No scores from {verifiers}; the first readable reply was used."
    moving = sum(candidate.continues_dialogue for candidate in candidates)
    if not any(isinstance(candidate.action, Action) for candidate in candidates):
        return f"All {count} replies were unreadable."
    if evidence.agent.startswith("vote:") and choice.continues_dialogue:
        return f"{moving} of {count} replies continue; the most frequent move was used."
    if not choice.continues_dialogue:
        return f"Reply {number} of {count} is final; moves were not scored."
    if any(candidate.view is not None for candidate in candidates):
        return f"Reply {number} was carried out; the views of all {moving} moves were shown."
    if moving < 2:
        return f"Only one of {count} replies continues; nothing to compare."
    return f"Last turn; none of the {count} replies was scored."


def _why_unscored(candidate: Candidate) -> str:
    if isinstance(candidate.action, Malformed):
        return "unreadable"
    if candidate.action.done:
        return "done; only moves are scored"
    return "not considered"
