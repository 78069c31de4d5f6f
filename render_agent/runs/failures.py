"""The rule that stops a run when too many questions fail."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.question import Question
from render_agent.errors import RunStoppedError
from render_agent.options import AUTO

IN_A_ROW = 5
"""Consecutive failures that stop the run: an error that hits every question is not the questions' fault."""


class Failures:
    """Counts failures of questions.

    most: the value of `--max-failures`; `auto` stops after IN_A_ROW failures without a turn in between. questions: all
    that are to be asked.
    """

    def __init__(self, most: str, questions: Sequence[Question]) -> None:
        self.most = None if most == AUTO else allowed_failures(most, len(questions))
        self._scenes = len({question.scene for question in questions})
        self._failed = 0
        self._in_a_row: list[Question] = []

    def failed(self, question: Question, reason: str, *, of_scene: bool = False) -> None:
        """Count a failure. RunStoppedError if it is one too many.

        of_scene: whether a scan or a view of it was to blame: not the run, unless other scenes fail, too.
        """
        self._failed += 1
        self._in_a_row.append(question)
        if self.most is not None:
            stops, count = self._failed > self.most, f"{self._failed} questions failed"
        else:
            scenes = len({each.scene for each in self._in_a_row})
            stops = len(self._in_a_row) >= IN_A_ROW
            stops = stops and not (of_scene and scenes < min(IN_A_ROW, self._scenes))
            count = f"{len(self._in_a_row)} questions failed in a row"
        if stops:
            raise RunStoppedError(
                f"{count}, the last because: {reason}; fix that and resume with --continue, or allow more failures with"
                " --max-failures"
            )

    def went_on(self) -> None:
        """Note that a question took a turn."""
        self._in_a_row.clear()


def allowed_failures(most: str, questions: int) -> int:
    """Return how many questions may fail; most: a number, or a share of `questions` such as 10%."""
    if most.endswith("%"):
        return int(float(most[:-1]) / 100 * questions)
    return int(most)
