"""What was found in a run, in sentences: each is said only where figures and their intervals carry it."""

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
from render_agent.util.display import listed

EARLY, NEVER = Cause.STOPPED_EARLY, Cause.NEVER_LOOKED

SHARED: tuple[tuple[tuple[Cause, ...], str], ...] = (
    *(((cause,), words) for cause, words in REASONS.items() if cause is not Cause.UNKNOWN),
    ((EARLY, NEVER), "came without everything named having been seen well"),
)
"""What most wrong answers may have in common, the narrowest first."""

MOST = (
    50  # percent; a reason is that of most wrong answers if the interval of its share is above it
)

LEAST_FITTED = 8
"""Of fewer truths a type the commonest answer is nearly fitted to each of them: to be below it says nothing."""

NAMED_TYPES = 3
"""So many types a sentence names at the most."""


class Finding(NamedTuple):
    """A sentence, and where in the index the questions are that it counts; "" where no filter keeps just them."""

    sentence: str
    link: str = ""


def findings(run: RunData, diagnoses: Mapping[str, Diagnosis]) -> list[Finding]:
    """Return what was found, at most three sentences; none where figures or intervals do not carry any."""
    told = (against_chance(run.results), by_types(run.results))
    found = [Finding(sentence) for sentence in told if sentence is not None]
    return [*found, *filter(None, [reasons(run.rows, own_diagnoses(run.states, diagnoses))])]


def reasons(rows: Mapping[str, Row], diagnoses: Mapping[str, Diagnosis]) -> Finding | None:
    """What most wrong answers have in common: of all wrong ones, by the share's 95 % interval over scenes."""
    wrong = [
        (scene_of(rows[name]), diagnosis.cause)
        for name, diagnosis in diagnoses.items()
        if diagnosis.cause in WRONG and name in rows
    ]
    for own, words in SHARED:
        bounds = share([(scene, float(cause in own)) for scene, cause in wrong]).bounds
        if bounds and bounds[0] > MOST:
            number = sum(cause in own for _, cause in wrong)
            link = f"#{urlencode({'cause': str(own[0])})}" if len(own) == 1 else ""
            return Finding(f"Of {len(wrong):,} wrong answers, {number:,} {words}.", link)
    return None


def by_types(results: Mapping[str, Any]) -> str | None:
    """Which type is farthest above the commonest answer to it, and which cannot be told from it or are below.

    The three directions count as their one task.
    """
    levels, rows = results["chance"]["frequency"], type_scores(results)
    rows = {n: row for n, row in rows.items() if n not in DIRECTION_TYPES or DIRECTION not in rows}
    bounds = {name: results["intervals"].get(name) for name in rows}
    known = [name for name in rows if bounds[name] is not None and levels.get(name) is not None]
    above = {n: rows[n][1] - levels[n] for n in known if bounds[n][0] > levels[n]}
    below = [n for n in known if bounds[n][1] < levels[n] and rows[n][0] >= LEAST_FITTED]
    level = [name for name in known if name not in above and name not in below]
    clauses = []
    if above:
        best = max(above, key=lambda name: above[name])
        clauses.append(f"{type_words(best)} is {_points(above[best])} above the commonest answer")
    if above and (others := [name for name in above if name != best]):
        clauses.append(f"{_listed(others)} above it, too")
    if below:
        clauses.append(f"{_listed(below)} below {'it' if clauses else 'the commonest answer'}")
    if level and clauses:
        clauses.append(f"{_listed(level)} not shown to differ from it")
    return _capital("; ".join(clauses)) + "." if clauses else None


def against_chance(results: Mapping[str, Any]) -> str | None:
    """How the run scores against the most frequent answers."""
    score, bounds = results["official_over_scored"]["score"], results["intervals"].get(OFFICIAL)
    level = results["chance"]["frequency"].get(MACRO)
    if score is None or bounds is None or level is None or bounds[0] <= level <= bounds[1]:
        return None
    way = "above" if score > level else "below"
    numbers = [part["n"] for part in results["types"].values()]
    if way == "below" and sum(numbers) < LEAST_FITTED * len(numbers):
        return None
    return f"The score is {_points(abs(score - level))} {way} that of the commonest answers."


def _points(difference: float) -> str:
    number = f"{difference:.0f}" if difference >= 1 else f"{difference:.1f}"
    return f"{number} point" if number == "1" else f"{number} points"


def _listed(names: Sequence[str]) -> str:
    """Return some types with the verb behind them."""
    words = [type_words(name) for name in names]
    if len(words) > NAMED_TYPES:
        return f"{len(words)} other types are"
    return f"{listed(words)} {'is' if len(words) == 1 else 'are'}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
