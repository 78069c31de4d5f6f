"""Beliefs of a question as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

from render_agent.dialogue.state import QuestionState
from render_agent.errors import QuestionsError
from render_agent.parts.beliefs.matching import match_results
from render_agent.parts.beliefs.part import beliefs_of
from render_agent.parts.beliefs.scored_probe import ScoredProbe
from render_agent.report.beliefs.diagnosis import BeliefDiagnosis, belief_of
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.sentences.causes import describe_cause
from render_agent.runs.read import RunData
from render_agent.util.display import count_noun


def belief_lines(run: RunData, state: QuestionState) -> Iterator[str]:
    """Yield the cause of a question's result and its last belief; nothing if it was not probed."""
    probed_turns = [turn for turn in state.turns if turn.probe]
    if not probed_turns:
        return
    diagnosis = diagnose_run(run, 1, [state]).get(state.id)
    probes: Sequence[ScoredProbe] = ()
    diagnosed = belief_of(diagnosis)
    if diagnosis is not None and diagnosed is not None:
        yield f"cause: {describe_cause(diagnosis, run.parts)}"
        if words := compare_answers(diagnosed, state.answer):
            yield words
        probes = diagnosed.probes
    else:
        # If a ground-truth file has changed, the belief is shown without its score.
        with suppress(QuestionsError):
            probes = beliefs_of(run, [state])[state.id]
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


def compare_answers(belief: BeliefDiagnosis | None, answer: str | None) -> str:
    """Compare the answer implied by the last map with the given answer. The result is empty if the map implies none."""
    if belief is None or belief.answer is None:
        return ""
    if belief.follows:
        return f"Its last map implies {belief.answer}, as it answered."
    given_answer = f"it answered {answer}" if answer else "it gave no answer"
    return f"Its last map implies {belief.answer}, but {given_answer}."


def summarize_score(probe: ScoredProbe) -> str:
    """Summarize the score of a belief as comma-separated phrases."""
    score = probe.score
    if score is None:
        return "unreadable belief"
    parts = []
    if score.matching is not None:
        parts.append(f"{score.found} of {count_noun(score.true, 'object')} found")
        if score.matching.doubled:
            parts.append(f"{len(score.matching.doubled)} duplicated")
        if score.matching.invented:
            parts.append(f"{len(score.matching.invented)} invented")
        if score.matching.pairs:
            error = sum(pair.metres for pair in score.matching.pairs) / score.found
            parts.append(f"position error {error:.2f} m")
    if score.counts is not None:
        count_error = sum(map(abs, score.counts.values()))
        parts.append(f"count error {count_error}" if count_error else "counts correct")
    if score.metres is not None:
        parts.append(f"self-localisation error {score.metres:.2f} m")
    if probe.answer is not None:
        parts.append(f"implies {probe.answer}")
    return ", ".join(parts)
