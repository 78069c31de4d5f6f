"""Every error that this package raises on purpose.

RenderAgentError
├── SetupError           something is missing or wrong before the first question is asked (exit 1)
│   ├── UsageError       the command line contradicts itself (exit 2)
│   ├── QuestionsError   a question file cannot be read as questions
│   └── RunLogError      a run folder is locked, edited, full or not a run
├── SceneError           one scan cannot be read; the questions of that scan fail, the others go on
├── RenderError          one view cannot be drawn; its question fails, the others go on
├── EngineError          the engine is gone; the run stops and can be continued
└── RunStoppedError      a fault meets question after question; the run stops and can be continued

A reply that cannot be read is none of these: it is data (`render_agent.dialogue.reply.Malformed`).
Each message is one sentence that says what is wrong, where, and what to do about it; what was given is quoted in it,
and may be of any length, of which as much is shown as can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_WORD = 600
LONGEST_MESSAGE = 2_000
"""Characters; of what is longer the beginning and the end are told."""


class RenderAgentError(Exception):
    """The root of all errors that a user can be told in one sentence.

    >>> import render_agent
    >>> try:
    ...     render_agent.load_run("no-such-run")
    ... except render_agent.RenderAgentError as error:
    ...     str(error)
    "there is no run 'no-such-run', neither in experiment_logs nor as a path"
    """

    def __str__(self) -> str:
        """Return the sentence, with what is too long in it shortened."""
        words = re.sub(
            rf"\S{{{LONGEST_WORD + 1},}}",
            lambda word: _shortened(word[0], LONGEST_WORD),
            super().__str__(),
        )
        return _shortened(words, LONGEST_MESSAGE)


def _shortened(text: str, most: int) -> str:
    """Return a text of at most so many characters, three quarters of them from its beginning."""
    if len(text) <= most:
        return text
    first = most * 3 // 4
    return f"{text[:first]}…{text[first + 1 - most :]}"


class SetupError(RenderAgentError):
    """Something that the run needs is missing or wrong; raised before any model is loaded."""


class UsageError(SetupError):
    """Options that contradict each other."""


class QuestionsError(SetupError):
    """A question file that cannot be read as questions."""


class RunLogError(SetupError):
    """A run folder that is locked, edited, full, or no run at all.

    Attributes:
        status: The reason in a word or two, for lists of runs.
    """

    def __init__(self, message: str, status: str = "damaged") -> None:
        super().__init__(message)
        self.status = status


class SceneError(RenderAgentError):
    """A scan that cannot be read as a scene."""


class RenderError(RenderAgentError):
    """A view that cannot be drawn."""


class EngineError(RenderAgentError):
    """An engine that cannot answer any more."""


class RunStoppedError(RenderAgentError):
    """A fault that meets question after question, so that the run stops before it fails all of them."""


@contextmanager
def os_errors(
    kind: type[RenderAgentError], deed: str, then: str = "", also: type[Exception] = OSError
) -> Iterator[None]:
    """Turn an error of the operating system into one of this package: "cannot read FILE: Permission denied".

    deed: what was tried ("read FILE"). then: what to do about it. also: another kind of error to turn.
    """
    try:
        yield
    except (OSError, also) as error:
        reason = getattr(error, "strerror", None) or error
        raise kind(f"cannot {deed}: {reason}{then and f'; {then}'}") from error
