"""Standard input, output and error where they are closed, or their disk is full or gone."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Any, TextIO


class StandardError:
    """Standard error that never fails: text that its disk does not take is dropped."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write a text, or leave it out."""
        with suppress(OSError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Write what waits, or leave it out."""
        with suppress(OSError):
            self._stream.flush()


def open_closed_streams() -> None:
    """Have the null device stand for each standard stream that is closed.

    The next file that is opened would have its number, and in it would stand what a library says there.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is this one
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
