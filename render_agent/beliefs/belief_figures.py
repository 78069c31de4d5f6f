"""Aggregate belief scores of a run: after the last turn, by turn and by question type, with intervals over scenes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.beliefs.matching import RADIUS_METRES, FloatArray
from render_agent.beliefs.scored_probe import ScoredProbe, probes_of
from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState, split_counterparts
from render_agent.score.intervals import (
    Estimate,
    Statistic,
    add_holm,
    estimate_statistic,
    estimate_to_json,
    ratio,
)
from render_agent.tasks.ground_truth import Facts

BINS = 10  # calibration bins: confidence 0-10 %, 10-20 %, …

# scores in percent and their labels; computed by `_parts`
SHARES = {
    "readable": "readable (%)",
    "found": "found (%)",
    "right": "precision (%)",
    "invented": "invented (%)",
    "doubled": "duplicates (%)",
    "sides": "left or right (%)",
    "nearer": "nearer of two (%)",
    "kept": "objects retained (%)",
    "corrected": "missing objects added (%)",
    "exact_counts": "exact counts (%)",
    "own_answer": "score of implied answers (%)",
}

# scores in metres, degrees or objects, or from 0 to 1
OTHER_SCORES = {
    "position_metres": "position error (m)",
    "brier": "Brier score",
    "ece": "calibration error",
    "self_metres": "self-localisation error (m)",
    "self_degrees": "heading error (°)",
    "counts_off": "count error (objects)",
}

LABELS = SHARES | OTHER_SCORES


@dataclass(frozen=True, slots=True)
class ProbeStep:
    """The most recent probe of a question at a given turn, and the probe before it."""

    question: Question
    current: ScoredProbe
    before: ScoredProbe | None


def belief_figures(
    states: Sequence[QuestionState],
    facts: Mapping[str, Facts],  # ground-truth facts by scene, in the frame of the scan file
    truths: Mapping[str, str | None],
) -> dict[str, Any]:
    """Return the entry `beliefs` of `results.json`.

    Counterparts are excluded. Questions whose scenes have no known facts count only in `without_truth`.
    """
    states, _ = split_counterparts(states)
    questions = {state.id: state.question for state in states}
    probes_by_id = {s.id: probes_of(s, facts, truths) for s in states if s.question.scene in facts}
    turns = max((probes[-1].turn for probes in probes_by_id.values()), default=-1) + 1
    final_steps = [
        _step_at(questions[name], probes, turns) for name, probes in probes_by_id.items()
    ]
    by_type: dict[str, list[ProbeStep]] = defaultdict(list)
    for step in filter(None, final_steps):
        by_type[step.question.type].append(step)
    return {
        "radius_metres": RADIUS_METRES,
        "questions": len(probes_by_id),
        "without_truth": len(states) - len(probes_by_id),
        "last": summarize_steps(final_steps),
        "turns": [
            {
                "turn": turn,
                **summarize_steps(
                    [
                        _step_at(questions[name], probes, turn)
                        for name, probes in probes_by_id.items()
                    ]
                ),
            }
            for turn in range(turns)
        ],
        "types": {name: summarize_steps(steps) for name, steps in sorted(by_type.items())},
        "calibration": calibration([pair for step in final_steps if step for pair in _sure(step)]),
    }


def last_steps(
    states: Iterable[QuestionState], probes: Mapping[str, Sequence[ScoredProbe]]
) -> dict[str, ProbeStep]:
    """Return the last probe of each probed question by id; `probes` are results of `probes_of`."""
    originals, _ = split_counterparts(states)
    steps = {s.id: _step_at(s.question, probes.get(s.id, ()), len(s.turns)) for s in originals}
    return {name: step for name, step in steps.items() if step is not None}


def belief_differences(
    a: Mapping[str, ProbeStep],  # result of `last_steps` for the first run
    b: Mapping[str, ProbeStep],
) -> dict[str, dict[str, Any]]:
    """Compare the final beliefs of two runs, paired over questions that have the score in both.

    By score: `a`, `b` and `difference` (percent and points for shares), `interval`, `p`, `p_holm`, `scenes` and `n`.
    """
    differences: dict[str, dict[str, Any]] = {}
    for name in LABELS:
        steps = [
            (a[n], b[n]) for n in a if n in b and _terms(a[n], name)[1] and _terms(b[n], name)[1]
        ]
        if not steps:
            continue
        differences[name] = _compare_scores(steps, name)
    add_holm([*differences.values()])
    return differences


def _compare_scores(steps: Sequence[tuple[ProbeStep, ProbeStep]], name: str) -> dict[str, Any]:
    scenes = _scene_numbers([step for step, _ in steps])
    number = scenes.max() + 1
    score_a, score_b = (_statistic(side, name, scenes) for side in zip(*steps, strict=True))
    estimate = estimate_statistic(lambda weights: score_b(weights) - score_a(weights), number)
    scale = 100 if name in SHARES else 1
    interval, p = estimate.interval_and_p(scale)
    return {
        "a": scale * float(score_a(np.ones(number))),
        "b": scale * float(score_b(np.ones(number))),
        "difference": scale * float(estimate.mean),
        "interval": interval,
        "p": p,
        "scenes": int(number),
        "n": len(steps),
    }


def _statistic(
    steps: Sequence[ProbeStep],
    name: str,
    scenes: NDArray[np.int64],  # scene of each step, (steps,)
) -> Statistic:
    """Return a score over several probes as a function of the scenes' weights; NaN if no probes remain."""
    tops, bottoms = zip(*(_terms(step, name) for step in steps), strict=True)
    top, bottom = np.zeros((scenes.max() + 1, BINS)), np.bincount(scenes, bottoms)
    np.add.at(top, scenes, np.array(tops, np.float64))

    def score(weights: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore", divide="ignore"):
            value: FloatArray = np.abs(weights @ top).sum(axis=-1) / (weights @ bottom)
        return value

    return score


def _terms(step: ProbeStep, name: str) -> tuple[FloatArray, float]:
    """Return the numerator per bin, (BINS,), and the denominator that one probe contributes to a score.

    A score is the sum over bins of |sum over probes of numerators|, divided by the sum of denominators. Ratios use
    one bin. For the calibration error, each bin sums hits minus confidence.
    """
    top = np.zeros(BINS)
    if name == "ece":
        for confidence, was in _sure(step):
            top[_bin(confidence)] += was - confidence
        return top, len(_sure(step))
    top[0], bottom = _parts(step).get(name, (0, 0))
    return top, bottom


def _bin(confidence: float) -> int:
    return min(int(confidence * BINS), BINS - 1)


def summarize_steps(steps: Sequence[ProbeStep | None]) -> dict[str, Any]:
    """Return each score with its value, 95 % interval over scenes and sample size.

    Shares are in percent. None stands for a question that has not been probed yet.
    """
    probed_steps = [step for step in steps if step is not None]
    columns: dict[str, list[tuple[float, float, str]]] = defaultdict(list)
    for step in probed_steps:
        for name, (top, bottom) in _parts(step).items():
            columns[name].append((top, bottom, step.question.scene))
    summary: dict[str, Any] = {}
    for name in LABELS:
        if name == "ece":
            estimate, number = _ece(probed_steps)
        else:
            column = [entry for entry in columns[name] if entry[1]]
            tops, bottoms, scenes = zip(*column, strict=True) if column else ((), (), ())
            estimate, number = ratio(tops, scenes, bottoms), int(sum(bottoms))
        if estimate is not None:
            summary[name] = estimate_to_json(estimate, number, share=name in SHARES)
    return summary


def summarize_beliefs(beliefs: Mapping[str, Any], probes: Mapping[str, int]) -> str:
    """Summarize the final beliefs of a run in one sentence for the terminal."""
    templates = (
        ("found", "found {:.0f} %"),
        ("right", "precision {:.0f} %"),
        ("position_metres", "position error {:.2f} m"),
        ("exact_counts", "exact counts {:.0f} %"),
        ("self_metres", "self-localisation error {:.2f} m"),
    )
    final = beliefs["last"]
    if probes["asked"] == probes["unreadable"] + probes["failed"]:
        return f"beliefs: none of the {probes['asked']:,} replies to probes could be read"
    parts = [text.format(final[name]["value"]) for name, text in templates if name in final]
    if not parts:
        return "beliefs: not scored (no object boxes for these scenes)"
    return f"beliefs: {', '.join(parts)}. Run `render-agent diagnose` to see why answers are wrong."


def calibration(sure: Sequence[tuple[float, bool]]) -> list[dict[str, float | int]]:
    """Return the number of beliefs, the mean confidence (0 to 1) and the share found, by confidence bin."""
    bins: dict[int, list[tuple[float, bool]]] = defaultdict(list)
    for confidence, was_found in sure:
        bins[_bin(confidence)].append((confidence, was_found))
    return [
        {
            "from": number / BINS,
            "n": len(entries),
            "sure": sum(confidence for confidence, _ in entries) / len(entries),
            "found": sum(was for _, was in entries) / len(entries),
        }
        for number, entries in sorted(bins.items())
    ]


def _ece(steps: Sequence[ProbeStep]) -> tuple[Estimate | None, int]:
    """Return N and the expected calibration error (Naeini et al. 2015), Σ n/N · |share found − mean confidence|."""
    sure = [step for step in steps if _sure(step)]
    if not sure:
        return None, 0
    scenes = _scene_numbers(sure)
    estimate = estimate_statistic(_statistic(sure, "ece", scenes), scenes.max() + 1)
    return estimate, sum(len(_sure(step)) for step in sure)


def _scene_numbers(steps: Sequence[ProbeStep]) -> NDArray[np.int64]:
    return np.unique([step.question.scene for step in steps], return_inverse=True)[1]


def _step_at(question: Question, probes: Sequence[ScoredProbe], turn: int) -> ProbeStep | None:
    """Return the last probe up to a turn, and the one before it. Finished questions keep their last probe."""
    until = [probe for probe in probes if probe.turn <= turn]
    return ProbeStep(question, until[-1], until[-2] if len(until) > 1 else None) if until else None


def _sure(step: ProbeStep) -> tuple[tuple[float, bool], ...]:
    return () if step.current.score is None else step.current.score.sure


def _parts(step: ProbeStep) -> dict[str, tuple[float, float]]:
    """Return the numerator and denominator that one probe contributes to each ratio."""
    score = step.current.score
    parts: dict[str, tuple[float, float]] = {"readable": (score is not None, 1)}
    if step.current.worth is not None:
        parts["own_answer"] = (step.current.worth, 1)
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
        "brier": (sum((confidence - was) ** 2 for confidence, was in score.sure), len(score.sure)),
    }
    previous = step.before.score.matching if step.before and step.before.score else None
    if previous is not None:
        parts["kept"] = (len(previous.found & matching.found), len(previous.found))
        parts["corrected"] = (len({*previous.missing} & matching.found), len(previous.missing))
    return parts
