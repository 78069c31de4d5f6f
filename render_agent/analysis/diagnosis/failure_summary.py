"""What broke first in the questions of a run, and how well beliefs follow what was seen: figures, a table, a sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from rich.table import Table

from render_agent.analysis.diagnosis.model import BeliefDiagnosis, Diagnosis, Failure
from render_agent.analysis.diagnosis.summary import counts_table
from render_agent.beliefs.belief_summary import ScoredProbe, written
from render_agent.dialogue.state import QuestionState, split_counterparts
from render_agent.score.intervals import ratio
from render_agent.text.display import counted

BROKEN = (Failure.NEVER_SEEN, Failure.PERCEPTION, Failure.MEMORY, Failure.REASONING, Failure.NOT_READABLE, Failure.UNKNOWN)  # fmt: skip
"""What can break, in the order in which it would."""

HEADS = {
    Failure.RIGHT: "right",
    Failure.NEVER_SEEN: "never\nseen",
    Failure.PERCEPTION: "per-\ncep-\ntion",
    Failure.MEMORY: "mem-\nory",
    Failure.REASONING: "rea-\nson-\ning",
    Failure.NOT_READABLE: "un-\nread-\nable",
    Failure.UNKNOWN: "un-\nknown",
}

Judged = tuple[QuestionState, Diagnosis, BeliefDiagnosis]
"""A question that was asked for beliefs, with its diagnosis and what that says of them."""

Part = tuple[float, float, str]
"""What one question adds above and below the line of a ratio, and its scene."""


def failure_summary(
    states: Sequence[QuestionState], diagnoses: Mapping[str, Diagnosis], size: tuple[int, int]
) -> dict[str, Any] | None:
    """Return what broke first, for all questions and by type; None where no beliefs were asked for.

    `failures`: questions by what broke; `shares`: the same in percent of the judged ones, with intervals over
    scenes. `seen_found`: of the named objects that had been seen well by a probe, those on its map, in percent; it
    stands in `turns`, too, by turn. `updated`: of those that were not on the map of one probe and that a view showed
    well before the next one, those on that. `unseen_right`: of what is said to be unseen, or not, what is so.
    `follows`: answers that are what the last map answers. `answer` and `own_answer`: the mean official score of the
    answers that were given, and of those that follow from the last maps, over the questions that have both.
    Counterparts count nowhere. size: of the pictures.
    """
    judged = [
        (state, diagnosis, diagnosis.belief)
        for state in split_counterparts(states)[0]
        if (diagnosis := diagnoses.get(state.id)) is not None and diagnosis.belief is not None
    ]
    if not judged:
        return None
    by_type: dict[str, list[Judged]] = defaultdict(list)
    for entry in judged:
        by_type[entry[0].question.type].append(entry)
    turns = max(entry[2].probes[-1].turn for entry in judged) + 1
    return {
        "all": _figures(judged, size),
        "types": {name: _figures(entries, size) for name, entries in sorted(by_type.items())},
        "turns": [
            {"turn": turn, "seen_found": _ratio(_seen_found(judged, size, turn))}
            for turn in range(turns)
        ],
    }


def _figures(judged: Sequence[Judged], size: tuple[int, int]) -> dict[str, Any]:
    failures = [(s.question.scene, b.failure) for s, _, b in judged if b.failure is not None]
    numbers = Counter(failure for _, failure in failures)
    both = [
        (b.worth, s.question.score(s.answer), s.question.scene)
        for s, _, b in judged
        if b.worth is not None and b.failure is not None and s.question.scorable
    ]
    return {
        "questions": len(failures),
        "failures": {str(failure): numbers[failure] for failure in Failure},
        "shares": {
            str(failure): _ratio((is_so == failure, 1, scene) for scene, is_so in failures)
            for failure in Failure
        },
        "seen_found": _ratio(_seen_found(judged, size, None)),
        "updated": _ratio(_updated(judged, size)),
        "unseen_right": _ratio(_unseen(judged)),
        "follows": _ratio(
            (b.follows, 1, s.question.scene) for s, _, b in judged if b.follows is not None
        ),
        "own_answer": _ratio((own, 1, scene) for own, _, scene in both),
        "answer": _ratio((answered, 1, scene) for _, answered, scene in both),
    }


def _ratio(parts: Iterator[Part] | Sequence[Part]) -> dict[str, Any] | None:
    kept = [part for part in parts if part[1]]
    if not kept:
        return None
    tops, bottoms, scenes = zip(*kept, strict=True)
    estimate = ratio(tops, scenes, bottoms)
    return None if estimate is None else written(estimate, int(sum(bottoms)), share=True)


def seen_between(
    diagnosis: Diagnosis, size: tuple[int, int], first: int, last: int
) -> frozenset[tuple[str, int]]:
    """Return the named boxes, by category and number, that a view of the turns first … last showed well."""
    return frozenset(
        (diagnosis.boxes[sighting.box].category, diagnosis.boxes[sighting.box].number)
        for turn in diagnosis.turns
        if first <= turn.turn <= last
        for sighting in turn.sightings
        if sighting.well(size)
    )


def _on_map(probe: ScoredProbe) -> frozenset[tuple[str, int]] | None:
    """Return the boxes on a map, None where it is none."""
    if probe.score is None or probe.score.matching is None:
        return None
    return probe.score.matching.found


def _seen_found(
    judged: Sequence[Judged], size: tuple[int, int], turn: int | None
) -> Iterator[Part]:
    """Give of every question's last probe, or its last up to a turn, the boxes seen well by then and those found."""
    for state, diagnosis, belief in judged:
        until = [p for p in belief.probes if turn is None or p.turn <= turn]
        if until and (on_map := _on_map(until[-1])) is not None:
            seen = seen_between(diagnosis, size, 0, until[-1].turn)
            yield len(seen & on_map), len(seen), state.question.scene


def _updated(judged: Sequence[Judged], size: tuple[int, int]) -> Iterator[Part]:
    for state, diagnosis, belief in judged:
        for before, now in pairwise(belief.probes):
            was, becomes = _on_map(before), _on_map(now)
            if was is not None and becomes is not None:
                shown = seen_between(diagnosis, size, before.turn + 1, now.turn) - was
                yield len(shown & becomes), len(shown), state.question.scene


def _unseen(judged: Sequence[Judged]) -> Iterator[Part]:
    """Give of every question's last probe how many categories it says rightly to be unseen, or not.

    A category of which a view showed something, and none well, is left out.
    """
    for state, diagnosis, belief in judged:
        belief_read = belief.probes[-1].probe.read
        if belief_read is None or belief_read.unseen is None:
            continue
        listed = rightly = 0
        for category, first in diagnosis.first_seen.items():
            own = {n for n, box in enumerate(diagnosis.boxes) if box.category == category}
            glimpsed = any(s.area and s.box in own for t in diagnosis.turns for s in t.sightings)
            if first is None and glimpsed:
                continue
            listed += 1
            rightly += (category in belief_read.unseen) == (not glimpsed)
        yield rightly, listed, state.question.scene


def reading(figures: Mapping[str, Any]) -> str:
    """Return one sentence that says what broke first, from the figures of a run or a type."""
    failures, seen = figures["failures"], figures["seen_found"]
    wrong = sum(failures[str(failure)] for failure in BROKEN)
    if not wrong:
        return "Nothing broke: no answer is wrong."
    parts = [
        f"{failure} in {100 * failures[str(failure)] / wrong:.0f} %"
        for failure in BROKEN
        if failures[str(failure)]
    ]
    sentence = f"What broke first in {counted(wrong, 'wrong answer')}: {', '.join(parts)}."
    if seen is not None:
        sentence += (
            f" Of {seen['n']:,} objects seen well, {seen['value']:.0f} % are on the last maps."
        )
    if figures["own_answer"] is None:
        return sentence
    own, answer = figures["own_answer"], figures["answer"]
    return (
        f"{sentence} Answers from the models' own last maps would score {own['value']:.1f},"
        f" those given score {answer['value']:.1f} ({own['n']:,} questions)."
    )


def failure_table(summary: Mapping[str, Any]) -> Table:
    """Return what broke first by type; see `failure_summary`."""
    return counts_table("What broke first, questions", summary, "failures", HEADS)
