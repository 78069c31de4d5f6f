"""The parsers of the harnesses in use, by name: each reads an answer in its way, all score it alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from render_agent.score import lmms_eval, vlmevalkit
from render_agent.score.official import (
    CHOICE_TYPES,
    first_word,
    is_number,
    mean_relative_accuracy,
    score_answer,
)
from render_agent.score.summary import OFFICIAL

ScoreAnswer = Callable[[str, str | None, str], float]
"""(question type, answer, truth) → score, 0 … 1."""


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
    "lmms-eval": LenientParser(first_word, lmms_eval.number).score,
    "vlmevalkit": LenientParser(vlmevalkit.letter, vlmevalkit.number).score,
}
