"""The parsers of the harnesses in use, by name: each reads an answer in its way, all score it alike."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from render_agent.score import vlmevalkit
from render_agent.score.official import (
    CHOICE_TYPES,
    first_word,
    is_number,
    mean_relative_accuracy,
    score_answer,
)
from render_agent.score.summary import OFFICIAL
from render_agent.text.numbers import number_from_words

ScoreAnswer = Callable[[str, str | None, str], float]
"""(question type, answer, truth) → score, 0 … 1."""


_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen"
    " sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety"
    " hundred thousand"
).split()
_WORD = f"(?:{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
_NUMBER = re.compile(
    rf"[-+]?(?:\d+(?:\.\d*)?|\.\d+)|\b{_WORD}(?:(?:[\s-]+|\s+and\s+){_WORD})*\b", re.IGNORECASE
)


def lmms_eval_number(answer: str) -> float | None:
    """Return the first number in an answer, as lmms-eval does; "twenty-one" counts, None is none."""
    match = _NUMBER.search(answer)
    if match is None:
        return None
    if not match[0][0].isalpha():
        return float(match[0])
    spoken = number_from_words(match[0])
    return number_from_words(re.split(r"[\s-]", match[0])[0]) if spoken is None else spoken


@dataclass(frozen=True, slots=True)
class LenientParser:
    """A parser that finds a letter or a number somewhere in an answer, None where it finds none."""

    letter: Callable[[str], str | None]
    number: Callable[[str], float | None]

    def score(self, question_type: str, prediction: str | None, truth: str) -> float:
        """Return the score of one answer, 0 … 1; no answer, or an unreadable one, scores 0.

        A type that is not the benchmark's and whose truth is a text is scored as the official
        parser does.
        """
        if question_type in CHOICE_TYPES:
            return float((self.letter(prediction or "") or "").lower() == truth.lower())
        if not is_number(truth):
            return score_answer(question_type, prediction, truth)
        read = self.number(prediction or "")
        return 0.0 if read is None else mean_relative_accuracy(read, float(truth))


PARSERS: dict[str, ScoreAnswer] = {
    OFFICIAL: score_answer,
    "lmms-eval": LenientParser(first_word, lmms_eval_number).score,
    "vlmevalkit": LenientParser(vlmevalkit.letter, vlmevalkit.number).score,
}
