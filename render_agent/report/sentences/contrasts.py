"""Contrasts: traits that answers with low scores have in common, compared with the others, with a significance test."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from render_agent.report.diagnosis.model import WRONG, Cause, Diagnosis
from render_agent.report.report_part import report_parts
from render_agent.score.intervals import SIGNIFICANT, add_holm
from render_agent.score.tables import p_value_phrase
from render_agent.score.terms import Term, compare_terms
from render_agent.util.display import count_noun


class Trait(NamedTuple):
    """A trait that the answers of a run can have in common."""

    name: str
    """Key in `render-agent diagnose --json`."""
    phrase: str
    """Follows the number of answers in a sentence."""
    holds: Callable[[Diagnosis], bool | None]
    """Returns whether an answer has the trait; None if unknown."""
    cause: Cause | None = None
    """The cause of wrong answers with the trait, if it is unique to the trait."""


@cache
def traits() -> Mapping[str, Trait]:
    """Return the traits by name, most specific first. The first one that most wrong answers have becomes a finding."""
    of_views = (
        Trait(
            "stopped_early",
            "came with turns left and before every named object was clearly visible",
            lambda d: None if d.saw_all is None else d.premature,
            Cause.STOPPED_EARLY,
        ),
        Trait(
            "never_looked",
            "used all turns without a clear view of every named object",
            lambda d: None if d.saw_all is None else not d.saw_all and not d.premature,
            Cause.NEVER_LOOKED,
        ),
    )
    of_parts = (trait for part in report_parts().values() for trait in part.traits)
    of_results = (
        Trait(
            "no_answer",
            "could not be parsed",
            lambda d: d.cause is Cause.NO_ANSWER,
            Cause.NO_ANSWER,
        ),
        Trait(
            "no_clear_view",
            "came without a clear view of every named object",
            lambda d: None if d.saw_all is None else not d.saw_all,
        ),
    )
    return {trait.name: trait for trait in (*of_views, *of_parts, *of_results)}


def contrasts(
    diagnoses: Iterable[Diagnosis], scenes: Mapping[str, Hashable]
) -> list[dict[str, Any]]:
    """Compare wrong with right answers by trait: `wrong` and `right` are [answers with the trait, answers where it is
    known].

    Traits that no answer has are omitted, and so are traits shared by exactly the same answers as a more specific
    trait.
    """
    judged_diagnoses = [d for d in diagnoses if d.cause is Cause.RIGHT or d.cause in WRONG]
    rows, groups = [], set()
    for trait in traits().values():
        answers = [(d, has) for d in judged_diagnoses if (has := trait.holds(d)) is not None]
        group = frozenset(d.question_id for d, has in answers if has)
        if group and group not in groups:
            groups.add(group)
            rows.append({"trait": trait.name} | _contrast(answers, scenes))
    add_holm(rows)
    return rows


def _contrast(
    answers: Sequence[tuple[Diagnosis, bool]], scenes: Mapping[str, Hashable]
) -> dict[str, Any]:
    right, wrong = (
        [Term(scenes[d.question_id], has) for d, has in answers if (d.cause in WRONG) is is_wrong]
        for is_wrong in (False, True)
    )
    difference = compare_terms(right, wrong)
    return {
        "wrong": [sum(int(term.top) for term in wrong), len(wrong)],
        "right": [sum(int(term.top) for term in right), len(right)],
        "p": difference and difference["p"],
    }


def contrast_sentences(figures: Mapping[str, Any]) -> list[str]:
    """Return sentences about traits that answers with low scores have in common, compared with the others."""
    causes = figures["all"]["causes"]
    if not sum(causes[str(cause)] for cause in WRONG):
        num_unjudged = causes[str(Cause.OPEN)]
        suffix = f" so far; {num_unjudged:,} not judged" if num_unjudged else ""
        return [f"No answers score below 50 %{suffix}."]
    sentences = [contrast_sentence(row) for row in figures["contrasts"] if row["wrong"][0]]
    if unknown := causes[str(Cause.UNKNOWN)]:
        sentences.append(
            f"Of the answers that score below 50 %, {unknown:,} have no object boxes to look at."
        )
    return sentences


def contrast_sentence(row: Mapping[str, Any]) -> str:
    """Return the sentence for a contrast: both shares, and whether they differ."""
    (num_wrong, all_wrong), (num_right, all_right) = row["wrong"], row["right"]
    return (
        f"Of {count_noun(all_wrong, 'answer')} with a score below 50 %, {num_wrong:,} {traits()[row['trait']].phrase}"
        f" (at least 50 %: {num_right:,} of {all_right:,}; {describe_difference(row['p_holm'])})."
    )


def describe_difference(p: float | None) -> str:
    """Return the result of a test of a difference, given its p-value."""
    if p is None:
        return "too few scenes or answers for a test"
    return p_value_phrase(p) if p <= SIGNIFICANT else f"no difference shown, {p_value_phrase(p)}"
