"""Raises SIGINT and SIGTERM as exceptions throughout the program."""

from __future__ import annotations

import signal
from types import FrameType
from typing import NoReturn

INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 + the signal number


class Terminated(BaseException):
    """The process received SIGTERM, for example at a cluster's time limit."""


KINDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}

_received: list[type[BaseException]] = []


def install() -> None:
    """Install handlers that raise the exceptions in KINDS; ignored signals stay ignored."""
    _received.clear()
    for number in KINDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _arrive)


def reraise() -> None:
    """Raise the first signal's exception again, in case a library swallowed it (some do during import)."""
    if _received:
        raise _received[0]


def exit_code(stop: BaseException) -> int:
    """Return the exit code for a program stopped by this exception."""
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def _arrive(number: int, frame: FrameType | None) -> NoReturn:
    kind = KINDS[signal.Signals(number)]
    _received.append(kind)
    raise kind
