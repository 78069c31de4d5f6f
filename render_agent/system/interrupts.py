"""Ctrl-C and SIGTERM, from the first line of the program on, and raised again where a library swallowed them."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

INTERRUPTED, TERMINATED = 130, 143
"""The exit codes of a program that was ended so."""


class Terminated(BaseException):
    """SIGTERM arrived, as a cluster's time limit sends it."""


KINDS = {signal.SIGINT: KeyboardInterrupt, signal.SIGTERM: Terminated}

AGAIN_SECONDS = 0.05
"""How soon a signal is sent again whose exception fell into code that may raise none."""

_arrived: list[type[BaseException]] = []
_previous_hook = sys.unraisablehook


def install() -> None:
    """Have both signals raise their exceptions from now on."""
    _arrived.clear()
    global _previous_hook
    if sys.unraisablehook is not _unraisable:
        _previous_hook, sys.unraisablehook = sys.unraisablehook, _unraisable
    for number in KINDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _arrive)


def raise_again() -> None:
    """Raise a signal's exception again that a library swallowed, as some do while they are imported."""
    if _arrived:
        raise _arrived[0]


def exit_code(stop: BaseException) -> int:
    """Return the exit code of a program that such an exception ended."""
    return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED


def _unraisable(lost: UnraisableHookArgs) -> None:
    """Send a signal again whose exception a finaliser or a callback of a weak reference met, where it is lost."""
    for number, kind in KINDS.items():
        if isinstance(lost.exc_value, kind):
            from threading import Timer  # what comes before `install` is to be short

            again = Timer(AGAIN_SECONDS, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
    _previous_hook(lost)


def _arrive(number: int, frame: FrameType | None) -> NoReturn:
    kind = KINDS[signal.Signals(number)]
    _arrived.append(kind)
    raise kind
