"""A turn of the log in lines of text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from render_agent.dialogue.evidence import Evidence
from render_agent.dialogue.reply import describe_action
from render_agent.dialogue.state import QuestionState
from render_agent.dialogue.turn import Failure, LogLine
from render_agent.errors import QuestionsError
from render_agent.report.diagnosis.diagnose import diagnose_run
from render_agent.report.diagnosis.sentences import belief_words, cause_words
from render_agent.report.pages.maps.belief_marks import worth_words
from render_agent.report.pages.maps.path_marks import where
from render_agent.report.standings import Standing, how_chosen, members, standings
from render_agent.runs.log.results import beliefs_of
from render_agent.runs.read import RunData
from render_agent.score.beliefs.matching import fates
from render_agent.score.beliefs.scored_probe import ScoredProbe

PLACE = " " * 6 + "at "
"""What a line begins with that says where a candidate leads."""


def turn_lines(folder: Path, turn: LogLine) -> Iterator[str]:
    """Give a turn of `turns.jsonl` in lines of text; folder: of the run.

    What it was shown, said and did, and where several replies were weighed, how each stood.
    """
    if isinstance(turn, Failure):
        yield f"error: {turn.error}"
        return
    for view in turn.views:
        yield f"view {view.number} ({view.kind}): {folder / view.file}"
    yield f"reply: {turn.reply}"
    yield f"happened: {turn.feedback}"
    if turn.evidence:
        yield from evidence_lines(folder, turn.evidence)


def belief_lines(folder: RunData, state: QuestionState) -> Iterator[str]:
    """Give the cause of a question and its last belief in words; nothing if it was not asked for any."""
    probed = [turn for turn in state.turns if turn.probe]
    if not probed:
        return
    diagnosis = diagnose_run(folder, 1, [state]).get(state.id)
    probes: Sequence[ScoredProbe] = ()
    if diagnosis is not None and diagnosis.belief is not None:
        yield f"cause: {cause_words(diagnosis, folder.parts)}"
        if words := belief_words(diagnosis, state.answer):
            yield words
        probes = diagnosis.belief.probes
    else:
        # where a file of the truth is no more as it was, what is believed is told alone
        with suppress(QuestionsError):
            probes = beliefs_of([state], folder.parts.picture_stress, folder.config.annotations)[
                state.id
            ]
    belief = next(turn.probe.read for turn in reversed(probed) if turn.probe)
    worth = f": {worth_words(probes[-1])}" if probes else ""
    if belief is None:
        yield f"its belief after turn {probed[-1].number + 1}: none could be read"
        return
    yield f"its belief after turn {probed[-1].number + 1}{worth}"
    matching = probes[-1].score.matching if probes and probes[-1].score else None
    facts = (
        ((thing, "", None) for thing in belief.objects or ())
        if matching is None
        else fates(belief, matching)
    )
    for thing, fate, pair in facts:
        x, y = thing.position
        sure = "" if thing.sure is None else f", {thing.sure:.0f} % sure"
        off = "" if pair is None else f", {pair.metres:.2f} m off"
        yield f"  {thing.category} at ({x:.2f}, {y:.2f}){sure}{': ' if fate else ''}{fate}{off}"
    for category, number in () if matching is None else matching.missing:
        yield f"  {category} {number + 1}: not on it"
    for category, count in (belief.counts or {}).items():
        yield f"  {category}: {count} of them"


def evidence_lines(folder: Path, evidence: Evidence) -> Iterator[str]:
    """Give a line on how a turn was decided, and one a candidate; the chosen one is marked with >.

    Below a candidate that was scored or drawn stands the pose it leads to, with its picture.
    folder: of the run.
    """
    yield f"chosen ({evidence.agent}): {how_chosen(evidence)}"
    labels = [member.label for member in members(evidence)]
    for standing in standings(evidence):
        candidate = standing.candidate
        mark = ">" if standing.chosen else " "
        move = "; ".join(describe_action(candidate.action)) or "nothing"
        if candidate.group:
            move += f" (wording {candidate.group + 1})"
        if candidate.outcome is not None and candidate.outcome.is_short:
            move += f" ({candidate.feedback})"
        yield f" {mark} {standing.name}: {move}{_scored(standing, labels)}"
        if candidate.view is not None:
            yield f"{PLACE}{where(candidate.camera)}: {folder / candidate.view.file}"
        elif standing.scores:
            yield f"{PLACE}{where(candidate.camera)}"
    for number, text in enumerate(evidence.wordings):
        yield f"   wording {number + 1}: {text}"
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
