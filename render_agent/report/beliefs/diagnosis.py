"""Diagnosis of a question's beliefs: their scores, and causes of wrong answers that only beliefs reveal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from render_agent.dialogue.beliefs import Belief, BelievedObject
from render_agent.dialogue.state import QuestionState
from render_agent.parts.beliefs.own_answer import own_answer
from render_agent.parts.beliefs.scored_probe import ScoredProbe, score_probes
from render_agent.report.diagnosis.model import Cause, Diagnosis
from render_agent.scans.boxes import OrientedBox
from render_agent.score.comparison import RIGHT
from render_agent.score.questions import is_scorable, score_answer
from render_agent.tasks.question_types import type_of

PART = "beliefs"  # name of the report part

# (category, number) of boxes, at least one of which must be on the map; counting questions have one group per box
Group = frozenset[tuple[str, int]]

# causes of wrong answers that beliefs can refine
WRONGLY_ANSWERED = (Cause.MISJUDGED, Cause.STOPPED_EARLY, Cause.NEVER_LOOKED, Cause.UNKNOWN)


@dataclass(frozen=True)
class BeliefDiagnosis:
    """Beliefs of one question, scored against ground truth."""

    probes: tuple[ScoredProbe, ...]
    answer: str | None = None
    """Answer implied by the last map; None if it implies none."""
    worth: float | None = None
    """Official score of the implied answer, 0 to 1."""
    follows: bool | None = None
    """True if the given answer agrees with the implied one."""


def belief_of(diagnosis: Diagnosis | None) -> BeliefDiagnosis | None:
    """Return the diagnosis of a question's beliefs; None if it was not probed."""
    belief: BeliefDiagnosis | None = None if diagnosis is None else diagnosis.parts.get(PART)
    return belief


def with_beliefs(
    state: QuestionState, diagnosis: Diagnosis, first_turns: Mapping[int, int], truth: str | None
) -> Diagnosis:
    """Add the beliefs of a question to its diagnosis, and refine the cause of a wrong answer."""
    belief = belief_diagnosis(state, diagnosis, truth)
    if belief is None:
        return diagnosis
    diagnosis = replace(diagnosis, parts={**diagnosis.parts, PART: belief})
    readable = [probe for probe in belief.probes if probe.score is not None]
    if not readable or diagnosis.cause not in WRONGLY_ANSWERED:
        return diagnosis
    explained = _cause_from_beliefs(state, diagnosis, first_turns, readable, truth)
    if explained is None:
        return diagnosis
    cause, detail = explained
    return replace(diagnosis, cause=cause, detail=detail)


def belief_diagnosis(
    state: QuestionState, diagnosis: Diagnosis, truth: str | None
) -> BeliefDiagnosis | None:
    """Score the beliefs of a question; return None if it was not probed."""
    if not any(turn.probe for turn in state.turns):
        return None
    boxes = boxes_by_category(diagnosis)
    counts = {name: len(group) for name, group in boxes.items()}
    probes = tuple(score_probes(state, boxes, counts, truth))
    if not probes:
        return BeliefDiagnosis(probes)
    last_probe = probes[-1]
    follows = None
    if state.answer is not None and last_probe.answer is not None:
        # score the given answer, with the answer implied by the map as the ground truth
        map_as_truth = replace(
            state.question, ground_truth=last_probe.answer, answers=(), metric=None
        )
        follows = score_answer(map_as_truth, state.answer) >= RIGHT
    return BeliefDiagnosis(probes, last_probe.answer, last_probe.worth, follows)


def boxes_by_category(diagnosis: Diagnosis) -> dict[str, list[OrientedBox]]:
    """Return the named boxes by category, ordered by number."""
    boxes: dict[str, list[OrientedBox]] = {}
    for box in diagnosis.boxes:
        boxes.setdefault(box.category, []).append(box.box)
    return boxes


def _cause_from_beliefs(
    state: QuestionState,
    diagnosis: Diagnosis,
    first_turns: Mapping[int, int],
    probes: Sequence[ScoredProbe],  # readable probes in order
    truth: str | None,
) -> tuple[Cause, str] | None:
    """Explain a wrong answer by the model's beliefs."""
    groups = _groups(diagnosis)
    is_solvable = type_of(state.question).solve is not None
    has_boxes = diagnosis.saw_all is not None

    def is_right(probe: ScoredProbe) -> bool:
        """Return True if the map has all required objects and, if solvable, implies the right answer."""
        is_complete = has_boxes and all(_holds(probe, group) for group in groups)
        return is_complete and ((probe.worth or 0.0) >= RIGHT if is_solvable else bool(groups))

    last_probe = probes[-1]
    if is_right(last_probe):
        reason = f"its map implies {last_probe.answer}" if is_solvable else "its map is correct"
        return Cause.REASONING, f"{reason}, but it answered {state.answer}"
    no_map = not any(probe.score and probe.score.matching for probe in probes)
    if not diagnosis.saw_all or (no_map and last_probe.answer is None):
        return None
    for group in groups:
        if not any(_holds(probe, group) for probe in probes):
            when_seen = f"seen clearly in {_first_seen_turn(group, diagnosis, first_turns)}"
            return (
                Cause.PERCEPTION,
                f"{_name(group)}: {when_seen}, but never placed correctly on its map",
            )
    for group in groups:
        if not _holds(last_probe, group):
            last_turn = max(probe.turn for probe in probes if _holds(probe, group))
            turns = f"after turn {last_turn + 1}, but not after turn {last_probe.turn + 1}"
            return Cause.MEMORY, f"{_name(group)}: on its map {turns}"
    if earlier := [probe for probe in probes[:-1] if is_right(probe)]:
        return Cause.MEMORY, f"its map was last correct after turn {earlier[-1].turn + 1}"
    if last_probe.answer is None or (
        groups and is_solvable and not _seen_enough(state, diagnosis, first_turns, truth)
    ):
        return None
    return Cause.PERCEPTION, f"its map has all objects but implies {last_probe.answer}"


def _seen_enough(
    state: QuestionState, diagnosis: Diagnosis, first_turns: Mapping[int, int], truth: str | None
) -> bool:
    """Return True if a correct map of only the clearly seen boxes implies the right answer."""
    seen_boxes = (diagnosis.boxes[index] for index in first_turns)
    objects = (
        BelievedObject(box.category, (box.centre[0], box.centre[1]), length=max(box.size))
        for box in seen_boxes
    )
    answer = own_answer(state.question, Belief(tuple(objects)), boxes_by_category(diagnosis))
    as_shown = replace(state.question, ground_truth=truth)
    return is_scorable(as_shown) and score_answer(as_shown, answer) >= RIGHT


def _groups(diagnosis: Diagnosis) -> list[Group]:
    keys = [(box.category, box.number) for box in diagnosis.boxes]
    return [frozenset(keys[index] for index in group) for group in diagnosis.needed]


def _holds(probe: ScoredProbe, group: Group) -> bool:
    """Return True if one of the boxes is on the map, or if only counts were requested and are present."""
    if probe.score is None or probe.score.matching is None:
        return probe.score is not None and probe.score.counts is not None
    return bool(probe.score.matching.found & group)


def _name(group: Group) -> str:
    category, number = min(group)
    return f"{category} {number + 1}" if len(group) == 1 and number else category


def _first_seen_turn(group: Group, diagnosis: Diagnosis, first_turns: Mapping[int, int]) -> str:
    turns = [
        first_turns[index]
        for index, box in enumerate(diagnosis.boxes)
        if (box.category, box.number) in group and index in first_turns
    ]
    return f"turn {min(turns) + 1}" if turns else "no turn"
