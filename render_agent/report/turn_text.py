"""Turns of the log as text for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from render_agent.beliefs.matching import match_results
from render_agent.beliefs.scored_probe import ScoredProbe
from render_agent.dialogue.evidence import Evidence
from render_agent.dialogue.reply import describe_action
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Failure, LogLine
from render_agent.errors import QuestionsError
from render_agent.report.candidate_scores import (
    CandidateScore,
    candidate_scores,
    explain_choice,
    members,
)
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.pages.maps.belief_marks import summarize_score
from render_agent.report.pages.maps.path_marks import describe_pose
from render_agent.report.sentences.causes import compare_answers, describe_cause
from render_agent.runs.log.results import beliefs_of
from render_agent.runs.read import RunData

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


def belief_lines(folder: RunData, state: QuestionState) -> Iterator[str]:
    """Yield the cause of a question's result and its last belief; nothing if it was not probed."""
    probed_turns = [turn for turn in state.turns if turn.probe]
    if not probed_turns:
        return
    diagnosis = diagnose_run(folder, 1, [state]).get(state.id)
    probes: Sequence[ScoredProbe] = ()
    if diagnosis is not None and diagnosis.belief is not None:
        yield f"cause: {describe_cause(diagnosis, folder.parts)}"
        if words := compare_answers(diagnosis, state.answer):
            yield words
        probes = diagnosis.belief.probes
    else:
        # If a ground-truth file has changed, the belief is shown without its score.
        with suppress(QuestionsError):
            probes = beliefs_of([state], folder.parts.image_stress, folder.facts)[state.id]
    belief = next(turn.probe.parsed_belief for turn in reversed(probed_turns) if turn.probe)
    score_text = f": {summarize_score(probes[-1])}" if probes else ""
    if belief is None:
        yield f"belief after turn {probed_turns[-1].number + 1}: unreadable"
        return
    yield f"belief after turn {probed_turns[-1].number + 1}{score_text}"
    matching = probes[-1].score.matching if probes and probes[-1].score else None
    believed_objects = (
        ((believed, "", None) for believed in belief.objects or ())
        if matching is None
        else match_results(belief, matching)
    )
    for believed, outcome, pair in believed_objects:
        x, y = believed.position
        confidence = "" if believed.sure is None else f", confidence {believed.sure:.0f} %"
        error = "" if pair is None else f", position error {pair.metres:.2f} m"
        outcome_text = f": {outcome}" if outcome else ""
        yield f"  {believed.category} at ({x:.2f}, {y:.2f}){confidence}{outcome_text}{error}"
    for category, number in () if matching is None else matching.missing:
        yield f"  {category} {number + 1}: missing"
    for category, count in (belief.counts or {}).items():
        yield f"  {category}: count {count}"


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
