"""Which lines of the package are reached: each is told once, and what was reached throughout costs nothing."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import render_agent

PACKAGE = Path(render_agent.__file__).parent

MOST_CALLS = 30
"""Calls of a function that are watched while one input is tried; watching takes most of the time."""

Line = tuple[str, int]
"""A file of the package and a line in it."""


class Lines:
    """Notes the lines that are reached for the first time while it watches."""

    def __init__(self) -> None:
        self._left: dict[CodeType, set[int]] = {}
        self._new: list[Line] = []
        self._calls: Counter[CodeType] = Counter()

    def __enter__(self) -> Lines:
        self._new = []
        self._calls.clear()
        self._before = sys.gettrace()
        sys.settrace(self._called)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    @property
    def new(self) -> list[Line]:
        """The lines reached since it began to watch, and never before."""
        return self._new

    def _called(self, frame: FrameType, event: str, given: Any) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            own = code.co_filename.startswith(str(PACKAGE))
            lines = (line for _, _, line in code.co_lines() if line) if own else ()
            left = self._left[code] = set(lines)
        if not left:
            return None
        self._calls[code] += 1
        return self._stepped if self._calls[code] <= MOST_CALLS else None

    def _stepped(self, frame: FrameType, event: str, given: Any) -> Any:
        left = self._left[frame.f_code]
        if event == "line" and frame.f_lineno in left:
            left.discard(frame.f_lineno)
            file = Path(frame.f_code.co_filename).relative_to(PACKAGE)
            self._new.append((str(file), frame.f_lineno))
        return self._stepped if left else None
