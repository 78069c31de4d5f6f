"""Aggregate belief scores of a run: after the last turn, by turn and by question type, with intervals over scenes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.parts.beliefs.matching import RADIUS_METRES
from render_agent.parts.beliefs.scored_probe import ScoredProbe, probes_of
from render_agent.score.intervals import add_holm
from render_agent.score.terms import Term, compare_terms, summarize_terms
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

    Questions whose scenes have no known facts count only in `without_truth`.
    """
    questions = {state.id: state.question for state in states}
    probes_by_id = {s.id: probes_of(s, facts, truths) for s in states if s.question.scene in facts}
    turns = max((probes[-1].turn for probes in probes_by_id.values()), default=-1) + 1

    def steps_at(turn: int) -> list[ProbeStep | None]:
        return [_step_at(questions[name], probes, turn) for name, probes in probes_by_id.items()]

    final_steps = steps_at(turns)
    by_type: dict[str, list[ProbeStep]] = defaultdict(list)
    for step in filter(None, final_steps):
        by_type[step.question.type].append(step)
    return {
        "radius_metres": RADIUS_METRES,
        "questions": len(probes_by_id),
        "without_truth": len(states) - len(probes_by_id),
        "last": summarize_steps(final_steps),
        "turns": [{"turn": turn, **summarize_steps(steps_at(turn))} for turn in range(turns)],
        "types": {name: summarize_steps(steps) for name, steps in sorted(by_type.items())},
        "calibration": calibration([pair for step in final_steps if step for pair in _sure(step)]),
    }


def last_steps(
    states: Iterable[QuestionState], probes: Mapping[str, Sequence[ScoredProbe]]
) -> dict[str, ProbeStep]:
    """Return the last probe of each probed question by id; `probes` are results of `probes_of`."""
    steps = {s.id: _step_at(s.question, probes.get(s.id, ()), len(s.turns)) for s in states}
    return {name: step for name, step in steps.items() if step is not None}


def belief_differences(
    a: Mapping[str, ProbeStep],  # result of `last_steps` for the first run
    b: Mapping[str, ProbeStep],
) -> dict[str, dict[str, Any]]:
    """Compare the final beliefs of two runs, paired over questions that have the score in both.

    By score: `a`, `b` and `difference` (percent and points for shares), `interval`, `p`, `p_holm`, `scenes` and `n`.
    """
    terms = [(_terms(a[name]), _terms(b[name])) for name in a if name in b]
    differences: dict[str, dict[str, Any]] = {}
    for name in LABELS:
        pairs = [(in_a[name], in_b[name]) for in_a, in_b in terms if in_a[name] and in_b[name]]
        sides = ([term for side in sides for term in side] for sides in zip(*pairs, strict=True))
        if pairs and (entry := compare_terms(*sides, scale=100 if name in SHARES else 1)):
            differences[name] = entry | {"n": len(pairs)}
    add_holm([*differences.values()])
    return differences


def _terms(step: ProbeStep) -> defaultdict[str, list[Term]]:
    """Return what one probe adds to each score."""
    scene, terms = step.question.scene, defaultdict[str, list[Term]](list)
    for name, (top, bottom) in _parts(step).items():
        terms[name] += [Term(scene, top, bottom)] if bottom else []
    terms["ece"] = [Term(scene, was - sure, bin=_bin(sure)) for sure, was in _sure(step)]
    return terms


def _bin(confidence: float) -> int:
    return min(int(confidence * BINS), BINS - 1)


def summarize_steps(steps: Sequence[ProbeStep | None]) -> dict[str, Any]:
    """Return each score with its value, 95 % interval over scenes and sample size. `ece` is the expected calibration error
    (Naeini et al. 2015), Σ n/N · |share found − mean confidence|.

    Shares are in percent. None stands for a question that has not been probed yet.
    """
    terms = [_terms(step) for step in steps if step is not None]
    summary: dict[str, Any] = {}
    for name in LABELS:
        merged = [term for by_name in terms for term in by_name[name]]
        if entry := summarize_terms(merged, share=name in SHARES):
            summary[name] = entry
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
