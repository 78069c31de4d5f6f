"""The candidates of a turn, each with what was said of it: for pages, tables and exports."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.config.agent_plan import agent_plan
from render_agent.dialogue.reply import Action, Malformed
from render_agent.dialogue.state import Candidate, Evidence, QuestionState
from render_agent.text.display import listed


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
    and what it said. why: why it was not scored where others were, else None. led: the highest fused score that it
    leads to, at once or with a move after it.
    """

    candidate: Candidate
    chosen: bool
    scores: tuple[float | None, ...]
    fused: float | None
    led: float | None
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
    """Return the standing of every candidate; a second move comes behind the move that it follows."""
    rows = {number: row for row, number in enumerate(evidence.weighed)}
    values = dict(zip(evidence.weighed, evidence.fused, strict=False))
    standing = []
    for candidate in sorted(evidence.candidates, key=_order):
        number = candidate.number
        row = rows.get(number)
        after = [c.number for c in evidence.candidates if c.follows == number]
        reached = [values[reach] for reach in (number, *after) if reach in values]
        standing.append(
            Standing(
                candidate,
                chosen=number == evidence.chosen,
                scores=() if row is None else _scores(evidence, row),
                fused=values.get(number),
                led=max(reached, default=None),
                reasons=() if row is None else _reasons(evidence, row),
                why=_why_unscored(candidate) if row is None and rows else None,
            )
        )
    return standing


def how_chosen(evidence: Evidence) -> str:
    """Return in a sentence how a turn was decided."""
    verifiers = listed([judgement.verifier for judgement in evidence.judgements])
    own = [c for c in evidence.candidates if c.follows is None]
    chosen = next(c for c in own if c.number == evidence.chosen)
    if evidence.ballot is not None:
        return f"{len(own)} replies voted: the answer {evidence.ballot.winner} won."
    if evidence.fused and (means := group_means(evidence)):
        best = f"wording {chosen.group + 1} of {len(means)}"
        return f"By {verifiers} {best} is the best, and of its replies number {chosen.number + 1}."
    if evidence.fused:
        led = [s.led for s in standings(evidence) if s.candidate.follows is None]
        ties = led.count(led[chosen.number])
        alike = f", the first of {ties} with the same score" if ties > 1 else ""
        return f"Of {len(own)} replies {verifiers} chose number {chosen.number + 1}{alike}."
    if evidence.judgements:
        return f"Told by nobody ({verifiers}): the first reply that could be read was taken."
    moving = sum(candidate.goes_on for candidate in own)
    if not any(isinstance(candidate.action, Action) for candidate in own):
        return f"None of {len(own)} replies could be read."
    if agent_plan(evidence.agent).votes and chosen.goes_on:
        return f"{moving} of {len(own)} replies go on: the commonest move was made."
    if not chosen.goes_on:
        return f"Number {chosen.number + 1} of {len(own)} replies says done: no move was weighed."
    if any(candidate.view is not None for candidate in own):
        return f"Number {chosen.number + 1} was carried out, and all {moving} moves were shown."
    if moving < 2:
        return f"One of {len(own)} replies goes on: there was nothing to weigh."
    return f"It was the last turn: of {len(own)} replies none was weighed."


def short_summary(evidence: Evidence) -> str:
    """Describe in a few words how a turn was decided."""
    own = [c for c in evidence.candidates if c.follows is None]
    taken = next(s for s in standings(evidence) if s.chosen)
    summary = f"took {taken.name} of {len(own)}"
    if evidence.ballot is not None:
        return (
            f"{summary}, {100 * evidence.ballot.agreement:.0f} % agree on {evidence.ballot.winner}"
        )
    return summary if taken.led is None else f"{summary}, score {taken.led:.2f}"


def wordings_of(state: QuestionState) -> tuple[str, ...]:
    """Return the wordings of a question that its groups were asked, empty where there is but its own."""
    kept = (turn.evidence.wordings for turn in state.turns if turn.evidence)
    return next((wordings for wordings in kept if wordings), ())


def group_means(evidence: Evidence) -> dict[int, float]:
    """Return the mean fused score of every group that was weighed; none where there is one group."""
    groups = {c.number: c.group for c in evidence.candidates if c.follows is None}
    if len(set(groups.values())) < 2:
        return {}
    values_by_group: dict[int, list[float]] = {}
    for number, value in zip(evidence.weighed, evidence.fused, strict=False):
        if number in groups:
            values_by_group.setdefault(groups[number], []).append(value)
    return {group: sum(values) / len(values) for group, values in sorted(values_by_group.items())}


def _order(candidate: Candidate) -> tuple[int, int]:
    return candidate.number if candidate.follows is None else candidate.follows, candidate.number


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
