"""Turns of the log as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from render_agent.dialogue.reply import describe_action
from render_agent.dialogue.turn import Evidence, Failure, LogLine
from render_agent.report.candidate_scores import (
    CandidateScore,
    candidate_scores,
    explain_choice,
    members,
)
from render_agent.report.pages.maps.path_marks import describe_pose

POSE_PREFIX = " " * 6 + "at "  # prefix of the pose that a candidate leads to


def turn_lines(folder: Path, turn: LogLine) -> Iterator[str]:
    """Yield the views, the reply and the feedback of a turn, and the scores of its candidates if it has several."""
    if isinstance(turn, Failure):
        yield f"error: {turn.error}"
        return
    for view in turn.views:
        yield f"view {view.number} ({view.kind}): {folder / view.file}"
    yield f"reply: {turn.reply}"
    yield f"feedback: {turn.feedback}"
    if turn.restated is not None:
        answer = turn.restated.answer or "none that could be read"
        yield f"answer restated: {turn.restated.reply} ({answer})"
    if turn.evidence:
        yield from evidence_lines(folder, turn.evidence)


def evidence_lines(folder: Path, evidence: Evidence) -> Iterator[str]:
    """Yield a line that says how the reply was chosen, then one line per candidate. `>` marks the chosen one.

    A candidate that was scored or rendered is followed by the pose it leads to and its image.
    """
    yield f"chosen ({evidence.agent}): {explain_choice(evidence)}"
    labels = [member.label for member in members(evidence)]
    for scored in candidate_scores(evidence):
        candidate = scored.candidate
        mark = ">" if scored.chosen else " "
        move = "; ".join(describe_action(candidate.action)) or "nothing"
        if candidate.group:
            move += f" (wording {candidate.group + 1})"
        if candidate.outcome is not None and candidate.outcome.is_short:
            move += f" ({candidate.feedback})"
        yield f" {mark} {scored.name}: {move}{_score_suffix(scored, labels)}"
        if candidate.view is not None:
            yield f"{POSE_PREFIX}{describe_pose(candidate.camera)}: {folder / candidate.view.file}"
        elif scored.scores:
            yield f"{POSE_PREFIX}{describe_pose(candidate.camera)}"
    for number, text in enumerate(evidence.wordings):
        yield f"   wording {number + 1}: {text}"
    if (ballot := evidence.ballot) is not None:
        votes = ", ".join("none" if vote is None else vote for vote in ballot.votes)
        deviation = "" if ballot.spread is None else f", standard deviation {ballot.spread:g}"
        yield f"   votes: {votes} ({100 * ballot.agreement:.0f} % for {ballot.winner}{deviation})"


def _score_suffix(scored: CandidateScore, labels: list[str]) -> str:
    if scored.why is not None:
        return f" [not scored: {scored.why}]"
    if not scored.scores:
        return ""
    parts = [
        f"{label} {'–' if score is None else f'{score:.3g}'}"
        for label, score in zip(labels, scored.scores, strict=True)
    ]
    if scored.fused is not None:
        parts.append(f"fused {scored.fused:.2f}")
    parts += [f"{verifier}: {reason}" for verifier, reason in scored.reasons]
    return f" [{', '.join(parts)}]"
