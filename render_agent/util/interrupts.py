"""Ctrl-C and SIGTERM as exceptions, from the first line of the program on."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143
"""Exit codes of a program that was stopped by these signals."""


class Terminated(BaseException):
    """SIGTERM arrived, as a cluster's time limit sends it."""


KINDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}

_arrived: list[type[BaseException]] = []


def install() -> None:
    """Have both signals raise their exceptions from now on."""
    _arrived.clear()
    for number in KINDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _arrive)


def raise_again() -> None:
    """Raise a signal's exception again if a library swallowed it, as some do while they are imported."""
    if _arrived:
        raise _arrived[0]


def exit_code(stop: BaseException) -> int:
    """Return the exit code of a program that such an exception ended."""
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def _arrive(number: int, frame: FrameType | None) -> NoReturn:
    kind = KINDS[signal.Signals(number)]
    _arrived.append(kind)
    raise kind
