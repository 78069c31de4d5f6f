"""Failures of questions: counted, and where a fault meets question after question, the run stops with its cause.

The one rule for engines, agents, renderers and verifiers, and for workers, of whom each has its own count.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Sequence

from render_agent.config import AUTO
from render_agent.dialogue.state import Question
from render_agent.errors import RenderAgentError, RenderError, RunStoppedError, SceneError

IN_A_ROW = 5
"""Different questions that fail alike, one after the other, before that is the fault of what they share."""

_VARYING = re.compile(r"\"[^\"]*\"|'[^']*'|\S*/\S*|0x[0-9a-f]+|\d+")
"""What differs between two messages of one fault: quotations, paths, addresses, numbers."""


class Failures:
    """The failures of a run.

    most: as `--max-failures` has it; auto counts those in a row that have one cause. questions: all that are to be
    asked. broken: says why the engine fails on the simplest prompt, too, if it does. Lines of failures in a row are
    held back until another question has another fate, so that of a run that is stopped the questions are as they
    were.
    """

    def __init__(
        self,
        most: str,
        questions: Sequence[Question],
        broken: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._broken = broken
        self.scenes = len({question.scene for question in questions})
        self.most = None if most == AUTO else allowed_failures(most, len(questions))
        self._total = 0
        self._cause: tuple[str, ...] = ()
        self._questions: set[str] = set()
        self._met: set[str] = set()
        self._held: list[Callable[[], None]] = []

    def failed(
        self, question: Question, error: BaseException, write: Callable[[], None] | None = None
    ) -> None:
        """Count a failure; write: writes its line. RunStoppedError where it is one too many."""
        if self.most is not None:
            if write is not None:
                write()
            self._total += 1
            if self._total > self.most:
                raise RunStoppedError(
                    f"{self._total} questions failed, and --max-failures allows {self.most}, the last because:"
                    f" {error}; see to it, then go on with --continue"
                )
            return
        if (cause := cause_of(error, question)) != self._cause:
            self.went_on()
            self._cause = cause
        self._questions.add(question.id)
        self._met.add(question.scene)
        if write is not None:
            self._held.append(write)
        # A scan that is broken is the fault of its own questions, until others fail as they do.
        of_scene = isinstance(error, SceneError | RenderError)
        if len(self._questions) >= IN_A_ROW and (
            not of_scene or len(self._met) >= min(IN_A_ROW, self.scenes)
        ):
            self._ask_engine()
            count = len(self._questions)
            self.forget()
            raise RunStoppedError(
                f"{count} questions in a row failed alike, so the run stops before it fails all: {error}; see"
                " to it, then go on with --continue (--max-failures N or N% lets a run fail more of them)"
            )

    def end(self) -> None:
        """Note that the run is at its end. RunStoppedError where the last failures are the engine's."""
        if self._held:
            self._ask_engine()
        self.went_on()

    def _ask_engine(self) -> None:
        if (reason := self._broken()) is not None:
            self.forget()
            raise RunStoppedError(
                f"the model fails on every question, even on a prompt of one token ({reason}): nothing is marked"
                " as failed; once the cause is gone, go on with --continue"
            )

    def forget(self) -> None:
        """Leave the questions whose failures are held back as they were."""
        self._held.clear()

    def went_on(self) -> None:
        """Note that a question took a turn: what was held back is written."""
        self._cause, held, self._held = (), self._held, []
        self._questions.clear()
        self._met.clear()
        for write in held:
            write()


def allowed_failures(most: str, questions: int) -> int:
    """Return the number of questions that may fail; most: a number, or a share of `questions` such as 10%."""
    if most.endswith("%"):
        return int(float(most[:-1]) / 100 * questions)
    return int(most)


def cause_of(error: BaseException, question: Question) -> tuple[str, ...]:
    """Return a key of the cause of a failure: failures with one cause have the same key.

    That is where in the program it came up; of what is told in a sentence, the sentence without what differs.
    """
    while error.__cause__ is not None:
        error = error.__cause__
    name = type(error).__name__
    if not isinstance(error, RenderAgentError):
        frames = traceback.extract_tb(error.__traceback__)
        return (name, *(f"{frame.filename}:{frame.lineno}" for frame in frames[-1:]))
    words = str(error)
    for own in (question.id, question.scene):
        words = re.sub(rf"(?<!\w){re.escape(own)}(?!\w)", "…", words)
    return name, _VARYING.sub("…", words)
