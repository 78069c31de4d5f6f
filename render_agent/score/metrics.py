"""Metrics that a question may name: what its answer is compared with, and how; scores are 0 … 1.

Exact matches of texts are those of LEO's evaluation of SQA3D and ScanQA (embodied-generalist, `clean_answer` and
`answer_match`), by which EM@1 and refined EM@1 are published.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from render_agent.score.official import first_word, is_number, mean_relative_accuracy
from render_agent.text.numbers import SMALL_NUMBERS

ACCURACY, MRA = "accuracy", "mean-relative-accuracy"
EXACT, REFINED, JUDGED = "exact-match", "refined-match", "llm-match"

_SPELLINGS = {
    "letf": "left",
    "let": "left",
    "tehre": "there",
    "rigth": "right",
    "rght": "right",
    "behine": "behind",
    "chai": "chair",
    "wasing": "washing",
    "waslked": "walked",
    "oclock": "o'clock",
    "none": "zero",
    **{str(number): word for word, number in SMALL_NUMBERS.items()},
    "23": "twenty-three",
}
"""Words of answers that count as others: slips of whoever wrote them, and numbers."""

_CLEANING = (
    (r" {2,}", " "),
    (r"[^a-z0-9,'\s\-:]+", ""),
    (rf"\b({'|'.join(map(re.escape, _SPELLINGS))})\b", lambda match: _SPELLINGS[match[1]]),
    (r"\bo'[ ]+clock\b", "o'clock"),
    (r"\b([a-z]+)[0-9]\b", r"\1"),
    (r"\ba\b ([a-z]+)", r"\1"),
    (r"\ban\b ([a-z]+)", r"\1"),
    (r"\bthe\b ([a-z]+)", r"\1"),
    (r"\bbackwards\b", "backward"),
)


def clean(answer: str) -> str:
    """Return an answer as it is compared: lower case, without signs and articles, numbers up to twenty as words."""
    text = answer.lower().strip(" ")
    for pattern, to in _CLEANING:
        text = re.sub(pattern, to, text)
    return text


def exact_match(answer: str, truths: Sequence[str]) -> float:
    """Return whether an answer is one of the truths, all cleaned: EM@1."""
    return float(clean(answer) in map(clean, truths))


def refined_match(answer: str, truths: Sequence[str]) -> float:
    """Return whether an answer holds a truth or a truth holds it, spaces left out, all cleaned: refined EM@1.

    An empty answer matches nothing, which LEO's code leaves open.
    """
    words = "".join(clean(answer).split())
    known = ["".join(clean(truth).split()) for truth in truths]
    return float(bool(words) and any(words in truth or truth in words for truth in known))


def _accuracy(answer: str, truths: Sequence[str]) -> float:
    return float(first_word(answer).lower() in map(str.lower, truths))


def _relative_accuracy(answer: str, truths: Sequence[str]) -> float:
    word = first_word(answer)
    if not is_number(word):
        return 0.0
    return max(mean_relative_accuracy(float(word), float(truth)) for truth in truths)


METRICS: dict[str, Callable[[str, Sequence[str]], float] | None] = {
    ACCURACY: _accuracy,
    MRA: _relative_accuracy,
    EXACT: exact_match,
    REFINED: refined_match,
    JUDGED: None,
}
"""By name: (answer, truths, any of which is right) → score; None where a judge has to mark it."""

TEXT_METRICS = (EXACT, REFINED)
"""Those of texts that need no judge; both are told wherever one of them is named."""
