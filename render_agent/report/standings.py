"""The candidates of a turn, each with what was said of it: for pages, tables and exports."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.dialogue.evidence import Candidate, Evidence
from render_agent.dialogue.reply import Action, Malformed
from render_agent.util.display import listed


@dataclass(frozen=True, slots=True)
class Member:
    """One who scores: a verifier, or one of its members; its place is that of its scores."""

    verifier: str
    name: str

    @property
    def label(self) -> str:
        """The verifier's name, and the member's where it says more."""
        return self.verifier if self.name == self.verifier else f"{self.verifier} {self.name}"


@dataclass(frozen=True, slots=True)
class Standing:
    """A candidate, and how it stood.

    scores: one a member, None where that could not tell; empty where nobody was asked. reasons: verifier
    and what it said. why: why it was not scored where others were, else None.
    """

    candidate: Candidate
    chosen: bool
    scores: tuple[float | None, ...]
    fused: float | None
    reasons: tuple[tuple[str, str], ...]
    why: str | None

    @property
    def name(self) -> str:
        """Its number from 1, as its picture's file has it."""
        return str(self.candidate.number + 1)


def members(evidence: Evidence) -> tuple[Member, ...]:
    """Return everyone who scored the candidates of a turn."""
    return tuple(
        Member(judgement.verifier, name)
        for judgement in evidence.judgements
        for name in judgement.members
    )


def standings(evidence: Evidence) -> list[Standing]:
    """Return the standing of every candidate."""
    rows = {number: row for row, number in enumerate(evidence.weighed)}
    values = dict(zip(evidence.weighed, evidence.fused, strict=False))
    standing = []
    for candidate in evidence.candidates:
        number = candidate.number
        row = rows.get(number)
        standing.append(
            Standing(
                candidate,
                chosen=number == evidence.chosen,
                scores=() if row is None else _scores(evidence, row),
                fused=values.get(number),
                reasons=() if row is None else _reasons(evidence, row),
                why=_why_unscored(candidate) if row is None and rows else None,
            )
        )
    return standing


def how_chosen(evidence: Evidence) -> str:
    """Return in a sentence how a turn was decided."""
    verifiers = listed([judgement.verifier for judgement in evidence.judgements])
    candidates = evidence.candidates
    chosen = candidates[evidence.chosen]
    if evidence.ballot is not None:
        return f"{len(candidates)} replies voted: the answer {evidence.ballot.winner} won."
    if evidence.fused:
        return f"Of {len(candidates)} replies {verifiers} chose number {chosen.number + 1}."
    if evidence.judgements:
        return f"Told by nobody ({verifiers}): the first reply that could be read was taken."
    moving = sum(candidate.goes_on for candidate in candidates)
    if not any(isinstance(candidate.action, Action) for candidate in candidates):
        return f"None of {len(candidates)} replies could be read."
    if evidence.agent.startswith("vote:") and chosen.goes_on:
        return f"{moving} of {len(candidates)} replies go on: the commonest move was made."
    if not chosen.goes_on:
        return f"Number {chosen.number + 1} of {len(candidates)} replies says done: no move was weighed."
    if any(candidate.view is not None for candidate in candidates):
        return f"Number {chosen.number + 1} was carried out, and all {moving} moves were shown."
    if moving < 2:
        return f"One of {len(candidates)} replies goes on: there was nothing to weigh."
    return f"It was the last turn: of {len(candidates)} replies none was weighed."


def _scores(evidence: Evidence, row: int) -> tuple[float | None, ...]:
    return tuple(scores[row] for judgement in evidence.judgements for scores in judgement.scores)


def _reasons(evidence: Evidence, row: int) -> tuple[tuple[str, str], ...]:
    return tuple(
        (judgement.verifier, judgement.reasons[row])
        for judgement in evidence.judgements
        if judgement.reasons[row]
    )


def _why_unscored(candidate: Candidate) -> str:
    if isinstance(candidate.action, Malformed):
        return "it could not be read"
    if candidate.action.done:
        return "it says done: moves alone are scored"
    return "it was not weighed"
