"""Key findings of a run as sentences, limited to those that the confidence intervals support."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from render_agent.report.diagnosis.model import Cause, Diagnosis
from render_agent.report.diagnosis.sentences import REASONS
from render_agent.report.diagnosis.summary import WRONG, own_diagnoses
from render_agent.report.pages.plots.run_plots import scene_of, share, type_scores
from render_agent.report.pages.words import type_words
from render_agent.runs.log.row import Row
from render_agent.runs.read import RunData
from render_agent.score.means import MACRO
from render_agent.score.summary import OFFICIAL
from render_agent.tasks.question_types import DIRECTION, DIRECTION_TYPES
from render_agent.util.display import join_names

EARLY, NEVER = Cause.STOPPED_EARLY, Cause.NEVER_LOOKED

# (causes, phrase) that most wrong answers can have in common, most specific first
SHARED: tuple[tuple[tuple[Cause, ...], str], ...] = (
    *(((cause,), words) for cause, words in REASONS.items() if cause is not Cause.UNKNOWN),
    ((EARLY, NEVER), "came without a clear view of every named object"),
)

MOST = 50  # percent; "most" requires a confidence interval above this share

# With fewer questions per type, the most-frequent-answer baseline is overfitted and hard to beat.
MIN_PER_TYPE = 8

MAX_NAMED_TYPES = 3  # per sentence


class Finding(NamedTuple):
    """A sentence."""

    sentence: str
    link: str = ""
    """URL fragment that filters the table to the questions it counts; empty if there is none."""


def findings(run: RunData, diagnoses: Mapping[str, Diagnosis]) -> list[Finding]:
    """Return up to three findings; empty if the confidence intervals support none."""
    sentences = (against_chance(run.results), by_types(run.results))
    reason = reasons(run.rows, own_diagnoses(run.states, diagnoses))
    found = [Finding(sentence) for sentence in sentences if sentence is not None]
    return found if reason is None else [*found, reason]


def reasons(rows: Mapping[str, Row], diagnoses: Mapping[str, Diagnosis]) -> Finding | None:
    """Return the cause that most wrong answers have in common, if any."""
    wrong = [
        (scene_of(rows[name]), diagnosis.cause)
        for name, diagnosis in diagnoses.items()
        if diagnosis.cause in WRONG and name in rows
    ]
    for causes, phrase in SHARED:
        bounds = share([(scene, float(cause in causes)) for scene, cause in wrong]).bounds
        if bounds and bounds[0] > MOST:
            count = sum(cause in causes for _, cause in wrong)
            link = f"#{urlencode({'cause': str(causes[0])})}" if len(causes) == 1 else ""
            return Finding(f"Of {len(wrong):,} wrong answers, {count:,} {phrase}.", link)
    return None


def by_types(results: Mapping[str, Any]) -> str | None:
    """Compare question types with the most-frequent-answer baseline: best, above, below and not significant.

    The three direction types count as one task.
    """
    levels, rows = results["chance"]["frequency"], type_scores(results)
    rows = {n: row for n, row in rows.items() if n not in DIRECTION_TYPES or DIRECTION not in rows}
    bounds = {name: results["intervals"].get(name) for name in rows}
    comparable = [n for n in rows if bounds[n] is not None and levels.get(n) is not None]
    above = {n: rows[n][1] - levels[n] for n in comparable if bounds[n][0] > levels[n]}
    below = [n for n in comparable if bounds[n][1] < levels[n] and rows[n][0] >= MIN_PER_TYPE]
    similar = [name for name in comparable if name not in above and name not in below]
    baseline = "the most-frequent-answer baseline"
    clauses = []
    if above:
        best = max(above, key=lambda name: above[name])
        clauses.append(f"{type_words(best)} is {_points(above[best])} above {baseline}")
    if above and (others := [name for name in above if name != best]):
        clauses.append(f"{_subject(others, 'is', 'are')} above it, too")
    if below:
        target = "it" if clauses else baseline
        clauses.append(f"{_subject(below, 'is', 'are')} below {target}")
    if similar and clauses:
        verb = _subject(similar, "does not", "do not")
        clauses.append(f"{verb} differ significantly from it")
    return _capital("; ".join(clauses)) + "." if clauses else None


def against_chance(results: Mapping[str, Any]) -> str | None:
    """Compare the score with the most-frequent-answer baseline; None if not significantly different."""
    score, bounds = results["official_over_scored"]["score"], results["intervals"].get(OFFICIAL)
    level = results["chance"]["frequency"].get(MACRO)
    if score is None or bounds is None or level is None or bounds[0] <= level <= bounds[1]:
        return None
    direction = "above" if score > level else "below"
    counts = [part["n"] for part in results["types"].values()]
    if direction == "below" and sum(counts) < MIN_PER_TYPE * len(counts):
        return None
    difference = _points(abs(score - level))
    return f"The score is {difference} {direction} the most-frequent-answer baseline."


def _points(difference: float) -> str:
    number = f"{difference:.0f}" if difference >= 1 else f"{difference:.1f}"
    return f"{number} point" if number == "1" else f"{number} points"


def _subject(names: Sequence[str], singular: str, plural: str) -> str:
    """List question types, followed by the verb in the singular or plural form."""
    words = [type_words(name) for name in names]
    if len(words) > MAX_NAMED_TYPES:
        return f"{len(words)} other types {plural}"
    return f"{join_names(words)} {singular if len(words) == 1 else plural}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
