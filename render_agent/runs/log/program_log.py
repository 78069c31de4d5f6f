"""What the program logs while a run goes on, written into its folder."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from render_agent.util.redact import without_keys
from render_agent.util.sanitize import visible


@contextmanager
def program_log(path: Path, *, verbose: bool) -> Iterator[None]:
    """Write what the program logs to a file, such as `run.log`, and nowhere else."""
    handler = _File(path, encoding="utf-8", delay=True)
    handler.setFormatter(_Entry("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    program = logging.getLogger("render_agent")
    before = program.level, program.propagate
    program.addHandler(handler)
    program.setLevel(logging.DEBUG if verbose else logging.INFO)
    program.propagate = False
    try:
        yield
    finally:
        program.removeHandler(handler)
        program.level, program.propagate = before
        handler.close()


class _File(logging.FileHandler):
    """A file whose disk may be full, broken or gone: what it does not take is left out, and stops nothing.

    The run itself stops at the next turn that cannot be written, with a sentence of its own.
    """

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # of opening the file
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:
        if not isinstance(sys.exc_info()[1], OSError):
            super().handleError(record)

    def close(self) -> None:
        with suppress(OSError):
            super().close()


class _Entry(logging.Formatter):
    """An entry begins at the margin and nothing else does, so that no text from outside looks like one.

    No text commands a terminal on which the file is read, and no key is in it.
    """

    def format(self, record: logging.LogRecord) -> str:
        return visible(without_keys(super().format(record))).replace("\n", "\n  ")
