"""The figures of a run's beliefs: after the last turn, by turn and by type, each with its interval over scenes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from render_agent.beliefs.map_score import MapScore, score_map
from render_agent.beliefs.matching import RADIUS_METRES, Boxes
from render_agent.beliefs.own_answer import own_answer
from render_agent.dialogue.state import Probe, Question, QuestionState, Tokens, Turn
from render_agent.questions.ground_truth import Facts, Frame, placed
from render_agent.questions.mentions import named_categories
from render_agent.score.intervals import Estimate, jackknifed, ratio
from render_agent.text.safe_parse import plain

BINS = 10
"""Of a calibration: beliefs sure of 0 to 10 %, 10 to 20 % …"""

SHARES = (
    "readable", "found", "right", "invented", "doubled", "sides", "nearer", "kept", "corrected", "exact_counts",
    "own_answer",
)  # fmt: skip
"""The figures in percent."""

OTHERS = ("position_metres", "brier", "ece", "self_metres", "self_degrees", "counts_off")
"""The figures in metres, degrees, objects, and of 0 to 1."""


@dataclass(frozen=True, slots=True)
class ScoredProbe:
    """One probe set against the truth.

    turn: after which it was asked. score: None where its reply could not be read. answer: what follows from its map,
    worth: the official score of that, 0 to 1; None where nothing follows, or the question has no truth.
    """

    turn: int
    probe: Probe
    score: MapScore | None
    answer: str | None = None
    worth: float | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A probe of a question as it counts for the figures of one turn, and the one before it."""

    question: Question
    now: ScoredProbe
    before: ScoredProbe | None


def named_truth(question: Question, facts: Facts, frame: Frame) -> tuple[Boxes, dict[str, int]]:
    """Return boxes and counts of the categories that a question names, in the frame in which it was shown."""
    known = {label.lower(): some for label, some in placed(facts, frame).boxes.items()}
    counts = {label.lower(): number for label, number in facts.counts.items()}
    names = [name for name in named_categories(question) if name in known]
    return {name: known[name] for name in names}, {
        name: counts.get(name, len(known[name])) for name in names
    }


def scored_probes(
    state: QuestionState, boxes: Boxes, counts: Mapping[str, int], truth: str | None
) -> list[ScoredProbe]:
    """Return the probes of a question against boxes and counts of what it names; truth: what is right there.

    Of a counterpart whose room changed in the midst of its dialogue, those since then.
    """
    return [
        scored_probe(state.question, turn, turn.probe, boxes, counts, truth)
        for turn in state.turns[state.question.changed_at :]
        if turn.probe is not None
    ]


def scored_probe(
    question: Question,
    turn: Turn,
    probe: Probe,
    boxes: Boxes,
    counts: Mapping[str, int],
    truth: str | None,
) -> ScoredProbe:
    """Return one probe against the truth."""
    belief = probe.read
    if belief is None:
        return ScoredProbe(turn.number, probe, None)
    answer = own_answer(question, belief, boxes)
    worth = None
    asked = replace(question, truth=truth)
    if answer is not None and asked.scorable:
        worth = asked.score(answer)
    return ScoredProbe(
        turn.number, probe, score_map(belief, boxes, counts, turn.camera), answer, worth
    )


def belief_figures(
    states: Sequence[QuestionState],
    facts: Mapping[str, Facts],
    truths: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return what `results.json` holds of beliefs; states: those that were probed.

    facts: what is known of scenes, as files have it. truths: what is right, by question id. Questions about scenes
    of which nothing is known count in `without_truth` alone, counterparts in `changes` alone.
    """
    changes: dict[str, list[Step | None]] = defaultdict(list)
    for state in states:
        if (change := state.question.change) is not None:
            probes = _scored(state, facts, truths)
            changes[change.asked].append(_at(state.question, probes, len(state.turns)))
    states = [state for state in states if state.question.change is None]
    questions = {state.id: state.question for state in states}
    scored = {s.id: _scored(s, facts, truths) for s in states if s.question.scene in facts}
    turns = max((probes[-1].turn for probes in scored.values()), default=-1) + 1
    last = [_at(questions[name], probes, turns) for name, probes in scored.items()]
    by_type: dict[str, list[Step]] = defaultdict(list)
    for step in filter(None, last):
        by_type[step.question.type].append(step)
    return {
        "radius_metres": RADIUS_METRES,
        "questions": len(scored),
        "without_truth": len(states) - len(scored),
        "last": figures(last),
        "turns": [
            {
                "turn": turn,
                **figures([_at(questions[name], probes, turn) for name, probes in scored.items()]),
            }
            for turn in range(turns)
        ],
        "types": {name: figures(steps) for name, steps in sorted(by_type.items())},
        "calibration": calibration([pair for step in last if step for pair in _sure(step)]),
        **(
            {"changes": {asked: figures(steps) for asked, steps in changes.items()}}
            if changes
            else {}
        ),
    }


def _scored(
    state: QuestionState, facts: Mapping[str, Facts], truths: Mapping[str, str | None]
) -> list[ScoredProbe]:
    """Return the probes of a question against what is known of its scene; none where that is nothing."""
    frame = next((turn.probe for turn in state.turns if turn.probe), None)
    if frame is None or state.question.scene not in facts:
        return []
    boxes, counts = named_truth(state.question, facts[state.question.scene], frame)
    return scored_probes(state, boxes, counts, truths.get(state.id))


def probe_totals(states: Iterable[QuestionState]) -> dict[str, Any]:
    """Return what probes took, which is counted among nothing else: how many, replies of what kind, tokens, seconds."""
    probes = [turn.probe for state in states for turn in state.turns if turn.probe]
    return {
        "asked": len(probes),
        "unreadable": sum(probe.read is None and probe.error is None for probe in probes),
        "failed": sum(probe.error is not None for probe in probes),
        "calls": round(sum(1 / probe.batch_size for probe in probes)),
        "tokens": plain(Tokens.total(probe.tokens for probe in probes)),
        "seconds": round(sum(probe.seconds / probe.batch_size for probe in probes), 3),
    }


def figures(steps: Sequence[Step | None]) -> dict[str, Any]:
    """Return every figure that some probes tell: its value, its 95 % interval over scenes, and over how many it is.

    Shares are in percent. None stands for a question that was not asked yet.
    """
    known = [step for step in steps if step is not None]
    columns: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for step in known:
        for name, (top, bottom) in _parts(step).items():
            columns[name].append((top, bottom, step.question.scene))
    found: dict[str, Any] = {}
    for name in (*SHARES, *OTHERS):
        if name == "ece":
            estimate, number = _ece(known)
        else:
            column = [entry for entry in columns[name] if entry[1]]
            tops, bottoms, scenes = zip(*column, strict=True) if column else ((), (), ())
            estimate, number = ratio(tops, scenes, bottoms), int(sum(bottoms))
        if estimate is not None:
            found[name] = written(estimate, number, share=name in SHARES)
    return found


def summed_up(beliefs: Mapping[str, Any]) -> str:
    """Return one sentence about the last beliefs of a run, for a terminal; beliefs: as `results.json` has them."""
    said = (
        ("found", "{:.0f} % of what is named is on the last maps"),
        ("right", "{:.0f} % of what is on them is true"),
        ("position_metres", "{:.2f} m off"),
        ("exact_counts", "{:.0f} % of counts are exact"),
        ("self_metres", "itself {:.2f} m off"),
    )
    last = beliefs["last"]
    parts = [words.format(last[name]["value"]) for name, words in said if name in last]
    if not parts:
        return "beliefs: nothing is known of these scenes to set them against"
    return f"beliefs: {', '.join(parts)}; render-agent diagnose says what broke first"


def calibration(sure: Sequence[tuple[float, bool]]) -> list[dict[str, float | int]]:
    """Return by bins of how sure a model was, 0 to 1: how many beliefs, how sure on the average, and the share found."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for told, was_found in sure:
        bins[min(int(told * BINS), BINS - 1)].append((told, was_found))
    return [
        {
            "from": number / BINS,
            "n": len(entries),
            "sure": sum(told for told, _ in entries) / len(entries),
            "found": sum(was for _, was in entries) / len(entries),
        }
        for number, entries in sorted(bins.items())
    ]


def expected_calibration_error(sure: Sequence[tuple[float, bool]]) -> float:
    """Return ECE: Σ over bins n/N · |share found − mean sureness| (Naeini et al. 2015), NaN of nothing."""
    total = len(sure)
    gaps = (entry["n"] * abs(entry["found"] - entry["sure"]) for entry in calibration(sure))
    return sum(gaps) / total if total else math.nan


def _ece(steps: Sequence[Step]) -> tuple[Estimate | None, int]:
    by_scene: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for step in steps:
        by_scene[step.question.scene] += _sure(step)
    by_scene = {scene: entries for scene, entries in by_scene.items() if entries}
    everything = [pair for entries in by_scene.values() for pair in entries]
    if not everything:
        return None, 0
    left = [
        expected_calibration_error(
            [p for other, some in by_scene.items() if other != s for p in some]
        )
        for s in by_scene
    ]
    return jackknifed(expected_calibration_error(everything), left), len(everything)


def _at(question: Question, probes: Sequence[ScoredProbe], turn: int) -> Step | None:
    """Return the last probe up to a turn and the one before it; a finished question keeps its last."""
    until = [probe for probe in probes if probe.turn <= turn]
    return Step(question, until[-1], until[-2] if len(until) > 1 else None) if until else None


def _sure(step: Step) -> tuple[tuple[float, bool], ...]:
    return () if step.now.score is None else step.now.score.sure


def _parts(step: Step) -> dict[str, tuple[float, float]]:
    """Return of every ratio what one probe adds above and below its line."""
    score = step.now.score
    parts: dict[str, tuple[float, float]] = {"readable": (score is not None, 1)}
    if step.now.worth is not None:
        parts["own_answer"] = (step.now.worth, 1)
    if score is None:
        return parts
    if score.metres is not None:
        parts["self_metres"] = (score.metres, 1)
    if score.degrees is not None:
        parts["self_degrees"] = (score.degrees, 1)
    if score.counts is not None:
        off = [abs(number) for number in score.counts.values()]
        parts["exact_counts"] = (off.count(0), len(off))
        parts["counts_off"] = (sum(off), len(off))
    if score.matching is None:
        return parts
    matching = score.matching
    parts |= {
        "found": (score.found, score.true),
        "right": (score.found, score.believed),
        "invented": (len(matching.invented), score.believed),
        "doubled": (len(matching.doubled), score.believed),
        "position_metres": (sum(pair.metres for pair in matching.pairs), score.found),
        "sides": score.sides,
        "nearer": score.nearer,
        "brier": (sum((told - was) ** 2 for told, was in score.sure), len(score.sure)),
    }
    before = step.before.score.matching if step.before and step.before.score else None
    if before is not None:
        parts["kept"] = (len(before.found & matching.found), len(before.found))
        parts["corrected"] = (len({*before.missing} & matching.found), len(before.missing))
    return parts


def written(estimate: Estimate, number: int, *, share: bool) -> dict[str, Any]:
    """Return a figure as it is stored; share: it is of 0 to 1, and written in percent. number: over how many it is."""
    value = float(estimate.mean)
    if share:
        low, high = (float(bound) for bound in estimate.score_interval)
    else:
        reach = float(estimate.reach)
        low, high = max(0.0, value - reach), value + reach
    scale = 100 if share else 1
    return {
        "value": round(scale * value, 6),
        "interval": None if np.isnan(high) else [round(scale * low, 6), round(scale * high, 6)],
        "n": number,
        "scenes": int(estimate.scenes),
    }
