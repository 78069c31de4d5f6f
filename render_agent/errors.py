"""The exceptions of this package.

RenderAgentError
├── SetupError           something is missing or wrong before the first question is asked (exit 1)
│   ├── UsageError       options are invalid or inconsistent (exit 2)
│   ├── QuestionsError   a question file is invalid
│   └── RunLogError      a run folder is locked, edited, full or not a run
├── SceneError           a scan cannot be read; its questions fail, others continue
├── RenderError          a view cannot be rendered; its question fails, others continue
├── EngineError          the engine failed; the run stops and can be resumed
└── RunStoppedError      too many questions failed, or --max-cost was reached; the run stops and can be resumed

Unreadable replies are data, not errors (`render_agent.dialogue.reply.Malformed`).
Messages say what failed, why, and what to do. Long quoted values are shortened.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_WORD = 600  # characters; the middle of longer words is omitted
LONGEST_MESSAGE = 2_000  # characters; the middle of longer messages is omitted


class RenderAgentError(Exception):
    """Base class of all errors with a message for users.

    >>> import render_agent
    >>> try:
    ...     render_agent.load_run("no-such-run")
    ... except render_agent.RenderAgentError as error:
    ...     str(error)
    "there is no run 'no-such-run' in experiment_logs or at that path"
    """

    def __str__(self) -> str:
        """Return the message, with long parts shortened."""
        text = super().__str__()
        message = re.sub(r"\S+", lambda word: _shorten(word[0], LONGEST_WORD), text)
        return _shorten(message, LONGEST_MESSAGE)


def _shorten(text: str, max_chars: int) -> str:
    """Omit the middle of a text that exceeds `max_chars`, keeping three times as much of its beginning as of its end."""
    if len(text) <= max_chars:
        return text
    num_first = max_chars * 3 // 4
    return f"{text[:num_first]}…{text[num_first + 1 - max_chars :]}"


class SetupError(RenderAgentError):
    """Something a run needs is missing or wrong; raised before a model is loaded."""


class UsageError(SetupError):
    """Options are invalid or inconsistent."""


class QuestionsError(SetupError):
    """A question file is invalid."""


class RunLogError(SetupError):
    """A run folder is locked, edited, full, or not a run."""

    def __init__(self, message: str, status: str = "damaged") -> None:
        super().__init__(message)
        self.status = status


class SceneError(RenderAgentError):
    """A scan cannot be read."""


class RenderError(RenderAgentError):
    """A view cannot be rendered."""


class EngineError(RenderAgentError):
    """The engine has failed and cannot answer any more."""


class RunStoppedError(RenderAgentError):
    """Too many questions failed, or the run reached its cost limit, so it stopped early."""


@contextmanager
def os_errors(
    kind: type[RenderAgentError], operation: str, remedy: str = "", also: type[Exception] = OSError
) -> Iterator[None]:
    """Convert OSError to an error of this package, e.g. "cannot read FILE: Permission denied"."""
    try:
        yield
    except (OSError, also) as error:
        reason = getattr(error, "strerror", None) or error
        action = remedy and f". {remedy[:1].upper()}{remedy[1:]}."
        raise kind(f"cannot {operation}: {reason}{action}") from error
