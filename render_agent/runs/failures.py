"""The rule that stops a run when too many questions fail."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.dialogue.question import Question
from render_agent.errors import RunStoppedError
from render_agent.options import AUTO

# Consecutive failures that stop a run, because an error in every question has a common cause.
MAX_CONSECUTIVE = 5


class Failures:
    """Counts failed questions and stops the run after `--max-failures`; auto stops after MAX_CONSECUTIVE without a turn
    between.
    """

    def __init__(self, limit: str, questions: Sequence[Question]) -> None:
        self._limit = None if limit == AUTO else allowed_failures(limit, len(questions))
        self._scenes = len({question.scene for question in questions})
        self._failed = 0
        self._consecutive: list[Question] = []

    def add(
        self,
        question: Question,
        reason: str,
        *,
        of_scene: bool = False,
        cause: Exception | None = None,
    ) -> None:
        """Count a failure. Raises RunStoppedError."""
        self._failed += 1
        self._consecutive.append(question)
        if self._limit is not None:
            stops, count = self._failed > self._limit, f"stopped after {self._failed} failures"
        else:
            scenes = len({name.scene for name in self._consecutive})
            stops = len(self._consecutive) >= MAX_CONSECUTIVE
            stops = stops and not (of_scene and scenes < min(MAX_CONSECUTIVE, self._scenes))
            count = f"stopped after {len(self._consecutive)} consecutive failures"
        if stops:
            raise RunStoppedError(
                f"{count}. Last error: {reason}. Fix the cause and resume with --continue, or allow more failures with"
                " --max-failures."
            ) from cause

    def reset(self) -> None:
        """Record that a question completed a turn."""
        self._consecutive.clear()


def allowed_failures(limit: str, questions: int) -> int:
    """Return the allowed number of failures; `limit` is a number, or a percentage of `questions` such as 10%."""
    if limit.endswith("%"):
        return int(float(limit[:-1]) / 100 * questions)
    return int(limit)
