"""A turn of the log in lines of text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from render_agent.analysis.diagnosis.path import limited
from render_agent.analysis.report.maps.path_marks import where
from render_agent.analysis.report.question.action_text import action_words
from render_agent.dialogue.candidates import Standing, group_means, how_chosen, members, standings
from render_agent.dialogue.state import Evidence
from render_agent.geometry.camera import Camera
from render_agent.runs.log.lines import Line

PLACE = " " * 6 + "at "
"""What a line begins with that says where a candidate leads."""


def turn_lines(folder: Path, line: Line) -> Iterator[str]:
    """Give what a line of `turns.jsonl` says of its turn; folder: of the run.

    What it was shown, said and did, and where several replies were weighed, how each stood.
    """
    if (turn := line.turn) is None:
        yield f"error: {line.head.error}"
        return
    if turn.changed:
        yield f"from this turn on the room is changed: {turn.changed}"
    for view in turn.views:
        yield f"view {view.number} ({view.kind}): {folder / view.file}"
    yield f"reply: {turn.reply}"
    yield f"happened: {turn.feedback}"
    if turn.evidence:
        yield from evidence_lines(folder, turn.evidence, turn.stood)


def evidence_lines(folder: Path, evidence: Evidence, stood: Camera) -> Iterator[str]:
    """Give how a turn was decided, and a line a candidate; the one that was taken is marked with >.

    Below a candidate that was scored or drawn stands the pose it leads to, with its picture.
    folder: of the run. stood: the pose in which it was decided.
    """
    yield f"chosen ({evidence.agent}): {how_chosen(evidence)}"
    standing_candidates = standings(evidence)
    own = {standing.candidate.number: standing for standing in standing_candidates}
    labels = [member.label for member in members(evidence)]
    several = len({standing.candidate.group for standing in standing_candidates}) > 1
    for standing in standing_candidates:
        candidate = standing.candidate
        before = None if candidate.follows is None else own[candidate.follows]
        name = standing.name if before is None else f"{before.name} then {standing.name}"
        mark = ">" if standing.chosen else " "
        move = "; ".join(action_words(candidate.action)) or "nothing"
        if several:
            move += f" (wording {candidate.group + 1})"
        start = stood if before is None else before.candidate.camera
        if limited(candidate.action, start, candidate.camera):
            move += f" ({candidate.feedback})"
        yield f" {mark} {name}: {move}{_scored(standing, labels)}"
        if candidate.view is not None:
            yield f"{PLACE}{where(candidate.camera)}: {folder / candidate.view.file}"
        elif standing.scores:
            yield f"{PLACE}{where(candidate.camera)}"
    for number, text in enumerate(evidence.wordings):
        yield f"   wording {number + 1}: {text}"
    for group, mean in group_means(evidence).items():
        yield f"   wording {group + 1}: mean score {mean:.2f}"
    if (ballot := evidence.ballot) is not None:
        votes = ", ".join("none" if vote is None else vote for vote in ballot.votes)
        spread = "" if ballot.spread is None else f", standard deviation {ballot.spread:g}"
        yield f"   votes: {votes} ({100 * ballot.agreement:.0f} % are {ballot.winner}{spread})"


def _scored(standing: Standing, labels: list[str]) -> str:
    if standing.why is not None:
        return f" [not scored: {standing.why}]"
    if not standing.scores:
        return ""
    parts = [
        f"{label} {'–' if score is None else f'{score:.3g}'}"
        for label, score in zip(labels, standing.scores, strict=True)
    ]
    if standing.fused is not None:
        parts.append(f"fused {standing.fused:.2f}")
    parts += [f"{verifier}: {reason}" for verifier, reason in standing.reasons]
    return f" [{', '.join(parts)}]"
