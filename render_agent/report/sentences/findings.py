"""Key findings of a run as sentences, limited to significant ones."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from render_agent.report.diagnosis.diagnose import without_counterparts
from render_agent.report.diagnosis.model import WRONG, Diagnosis
from render_agent.report.pages.plots.run_plots import scene_of
from render_agent.report.sentences.contrasts import contrast_sentence, contrasts, traits
from render_agent.runs.read import RunData
from render_agent.score.chance import baseline_gains
from render_agent.score.intervals import SIGNIFICANT, ratio
from render_agent.score.means import MACRO
from render_agent.score.tables import p_value_phrase
from render_agent.tasks.question_types import type_label
from render_agent.util.display import join_names

MOST = 0.5  # "most" requires a confidence interval above this share

# With fewer questions per type, the most-frequent-answer baseline is overfitted and hard to beat.
MIN_PER_TYPE = 8

MAX_NAMED_TYPES = 3  # per sentence

BASELINE = "the most-frequent-answer baseline"

Gains = Mapping[str, Mapping[str, Any]]  # gains by mean, task or type; see `baseline_gains`


class Finding(NamedTuple):
    """A finding as a sentence."""

    sentence: str
    link: str = ""
    """URL fragment that filters the table to the questions that the finding counts; may be empty."""


def findings(run: RunData, diagnoses: Mapping[str, Diagnosis]) -> list[Finding]:
    """Return up to three findings, each significant after Holm's correction over the tests of its kind.

    The tests compare the score with the most-frequent-answer baseline, paired by question; the same for every task; and
    the traits of answers with low scores with those of the others.
    """
    gains = score_gains(run)
    diagnoses = without_counterparts(run, diagnoses)
    scenes = {name: scene_of(run.rows[name]) for name in diagnoses}
    trait_finding = shared_trait(contrasts(diagnoses.values(), scenes), diagnoses, scenes)
    sentences = compare_score_with_baseline(gains), compare_types_with_baseline(gains)
    return [
        *(Finding(s) for s in sentences if s is not None),
        *([] if trait_finding is None else [trait_finding]),
    ]


def score_gains(run: RunData) -> Gains:
    """Return the gains of a run's score over the most-frequent-answer baseline."""
    scores = [(state.question, run.rows[state.id].score) for state in run.states]
    return baseline_gains(
        [(question, score) for question, score in scores if score is not None],
        [state.question for state in run.states],
    )


def shared_trait(
    contrast_rows: Sequence[Mapping[str, Any]],
    diagnoses: Mapping[str, Diagnosis],
    scenes: Mapping[str, Hashable],
) -> Finding | None:
    """Return the first trait that most answers with low scores have, if significantly fewer of the others have it."""
    rows = {row["trait"]: row for row in contrast_rows}
    for trait in traits().values():
        row = rows.get(trait.name)
        if row is None or row["p_holm"] is None or row["p_holm"] > SIGNIFICANT:
            continue
        (num_missed, wrong), (right, num_right) = row["wrong"], row["right"]
        wrongly = [d for d in diagnoses.values() if d.cause in WRONG and trait.holds(d) is not None]
        share = ratio(
            [bool(trait.holds(d)) for d in wrongly], [scenes[d.question_id] for d in wrongly]
        )
        bounds = None if share is None else share.interval(1, share=True)
        if bounds is None or bounds[0] <= MOST or num_missed / wrong <= right / num_right:
            continue
        num_selected = sum(d.cause is trait.cause for d in wrongly)
        link = f"#{urlencode({'cause': str(trait.cause)})}" if num_selected == num_missed else ""
        return Finding(contrast_sentence(row), link)
    return None


def compare_types_with_baseline(gains: Gains) -> str | None:
    """Compare tasks with the most-frequent-answer baseline: best, above, below and not significant.

    The three direction types count as one task.
    """
    tasks = {n: row for n, row in gains.items() if n != MACRO and row["p_holm"] is not None}
    differing = {n: row["difference"] for n, row in tasks.items() if row["p_holm"] <= SIGNIFICANT}
    above = {name: points for name, points in differing.items() if points > 0}
    below = [n for n, points in differing.items() if points < 0 and tasks[n]["n"] >= MIN_PER_TYPE]
    similar = [name for name in tasks if name not in above and name not in below]
    clauses = []
    if above:
        best_task = max(above, key=lambda name: above[name])
        clauses.append(f"{type_label(best_task)} is {_points(above[best_task])} above {BASELINE}")
    if above and (other_tasks := [name for name in above if name != best_task]):
        clauses.append(f"{_subject(other_tasks, 'is', 'are')} above it, too")
    if below:
        target = "it" if clauses else BASELINE
        clauses.append(f"{_subject(below, 'is', 'are')} below {target}")
    if similar and clauses:
        verb = _subject(similar, "does not", "do not")
        clauses.append(f"{verb} differ significantly from it")
    return _capital("; ".join(clauses)) + "." if clauses else None


def compare_score_with_baseline(gains: Gains) -> str | None:
    """Compare the score with the most-frequent-answer baseline; return None if the difference is not significant."""
    row = gains.get(MACRO)
    if row is None or row["p_holm"] is None or row["p_holm"] > SIGNIFICANT:
        return None
    numbers = [entry["n"] for name, entry in gains.items() if name != MACRO]
    if row["difference"] < 0 and sum(numbers) < MIN_PER_TYPE * len(numbers):
        return None
    direction = "above" if row["difference"] > 0 else "below"
    points, p = _points(abs(row["difference"])), p_value_phrase(row["p_holm"])
    return f"The score is {points} {direction} {BASELINE} ({p})."


def _points(difference: float) -> str:
    number = f"{difference:.0f}" if difference >= 1 else f"{difference:.1f}"
    return f"{number} point" if number == "1" else f"{number} points"


def _subject(names: Sequence[str], singular: str, plural: str) -> str:
    """List question types, followed by the verb in the singular or plural form."""
    words = [type_label(name) for name in names]
    if len(words) > MAX_NAMED_TYPES:
        return f"{len(words)} other types {plural}"
    return f"{join_names(words)} {singular if len(words) == 1 else plural}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
