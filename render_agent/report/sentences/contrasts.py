"""Contrasts: traits that answers with low scores have in common, compared with the others, with a significance test."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from render_agent.report.diagnosis.model import WRONG, BeliefDiagnosis, Cause, Diagnosis
from render_agent.score.comparison import RIGHT
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


def _lost_right_map(belief: BeliefDiagnosis | None) -> bool | None:
    """Return True if an earlier map implied the right answer and the last one does not."""
    if belief is None or belief.worth is None:
        return None
    earlier = any((probe.worth or 0.0) >= RIGHT for probe in belief.probes[:-1])
    return earlier and belief.worth < RIGHT


def _has_wrong_map(belief: BeliefDiagnosis | None) -> bool | None:
    return None if belief is None or belief.worth is None else belief.worth < RIGHT


def _contradicts_map(belief: BeliefDiagnosis | None) -> bool | None:
    return None if belief is None or belief.follows is None else not belief.follows


# Most specific first. The first trait that most wrong answers have becomes a finding.
TRAITS = (
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
    Trait("wrong_map", "had a last map whose answer scores below 50 %", lambda d: _has_wrong_map(d.belief)),
    Trait("lost_map", "came after a map whose answer scores at least 50 % was lost", lambda d: _lost_right_map(d.belief)),
    Trait("contradiction", "contradicted the last map", lambda d: _contradicts_map(d.belief)),
    Trait("no_answer", "could not be parsed", lambda d: d.cause is Cause.NO_ANSWER, Cause.NO_ANSWER),
    Trait(
        "no_clear_view",
        "came without a clear view of every named object",
        lambda d: None if d.saw_all is None else not d.saw_all,
    ),
)  # fmt: skip


PHRASES = {trait.name: trait.phrase for trait in TRAITS}


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
    for trait in TRAITS:
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
        f"Of {count_noun(all_wrong, 'answer')} with a score below 50 %, {num_wrong:,} {PHRASES[row['trait']]}"
        f" (at least 50 %: {num_right:,} of {all_right:,}; {describe_difference(row['p_holm'])})."
    )


def describe_difference(p: float | None) -> str:
    """Return the result of a test of a difference, given its p-value."""
    if p is None:
        return "too few scenes or answers for a test"
    return p_value_phrase(p) if p <= SIGNIFICANT else f"no difference shown, {p_value_phrase(p)}"
