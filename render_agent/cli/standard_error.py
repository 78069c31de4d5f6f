"""Standard error whose disk may be full or gone."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, TextIO


class StandardError:
    """Standard error whose disk may be full or gone: what it does not take is left out, and stops nothing."""

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
