"""The rule that stops a run when too many questions fail."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.config import AUTO
from render_agent.dialogue.state import Question
from render_agent.errors import RunStoppedError

IN_A_ROW = 5
"""Consecutive failures that stop the run: an error that hits every question is not the questions' fault."""


class Failures:
    """Counts failures of questions.

    most: the value of `--max-failures`; `auto` stops after IN_A_ROW failures without a turn in between. questions: all
    that are to be asked.
    """

    def __init__(self, most: str, questions: Sequence[Question]) -> None:
        self.most = None if most == AUTO else allowed_failures(most, len(questions))
        self._total = 0
        self._in_a_row: set[str] = set()

    def failed(self, question: Question, reason: str, *, of_scene: bool = False) -> None:
        """Count a failure; of_scene: it counts once per scene. RunStoppedError if it is one too many."""
        self._total += 1
        self._in_a_row.add(f"scene {question.scene}" if of_scene else question.id)
        count = len(self._in_a_row) if self.most is None else self._total
        if count > (IN_A_ROW - 1 if self.most is None else self.most):
            raise RunStoppedError(
                f"{count} questions failed{' in a row' if self.most is None else ''}, the last because: {reason}; fix"
                " that and resume with --continue, or allow more failures with --max-failures"
            )

    def went_on(self) -> None:
        """Note that a question took a turn."""
        self._in_a_row.clear()


def allowed_failures(most: str, questions: int) -> int:
    """Return how many questions may fail; most: a number, or a share of `questions` such as 10%."""
    if most.endswith("%"):
        return int(float(most[:-1]) / 100 * questions)
    return int(most)
