"""The program's log messages during a run, written to a file in the run folder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from render_agent.util.sanitize import escape_unsafe, redact_keys


@contextmanager
def program_log(path: Path, *, verbose: bool) -> Iterator[None]:
    """Redirect the program's log messages to a file, such as `run.log`."""
    handler = _File(path, encoding="utf-8", delay=True)
    handler.setFormatter(_Entry("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    program_logger = logging.getLogger("render_agent")
    saved_settings = program_logger.level, program_logger.propagate
    program_logger.addHandler(handler)
    program_logger.setLevel(logging.DEBUG if verbose else logging.INFO)
    program_logger.propagate = False
    try:
        yield
    finally:
        program_logger.removeHandler(handler)
        program_logger.level, program_logger.propagate = saved_settings
        handler.close()


class _File(logging.FileHandler):
    """Log file that ignores write errors, for example on a full disk.

    The run itself stops with an error at the next turn that cannot be written.
    """

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # raised when the file was opened
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _Entry(logging.Formatter):
    """Indents continuation lines, so that text from outside cannot look like a log entry.

    Also removes terminal control characters and keys.
    """

    def format(self, record: logging.LogRecord) -> str:
        return escape_unsafe(redact_keys(super().format(record))).replace("\n", "\n  ")
