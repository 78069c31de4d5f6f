"""Inputs tried in a process of their own, which is ended and started anew where one ends it or never ends."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz_bounds import MOST_SECONDS, MOST_WAITING

if TYPE_CHECKING:
    from fuzz_trying import Outcome

GRACE = 3.0
"""So many times its seconds may a process take before it is ended from outside."""


class Child:
    """A process that tries inputs, one after the other."""

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=work, args=(theirs, os.getpid()), daemon=True)
        self._process.start()
        theirs.close()
        self._known: set[str] = set()

    def close(self) -> None:
        """End it."""
        self._connection.close()
        self._process.join(30)
        self._process.kill()
        self._process.join()

    def tried(self, name: str, data: bytes) -> Outcome:
        """Return how an input of a target ended, where it ended the process too."""
        from fuzz_trying import Outcome

        self._connection.send((name, data))
        began, first = time.monotonic(), name not in self._known
        self._known.add(name)
        most = MOST_SECONDS * GRACE * (10 if first else 1)  # it imports and prepares beforehand
        taken = self._processor_seconds()
        while not self._connection.poll(0.5):
            used, waited = self._processor_seconds() - taken, time.monotonic() - began
            if used > most or waited > MOST_WAITING or not self._process.is_alive():
                code = self._process.exitcode
                ended = "endless" if code is None else f"the process ended with {code}"
                self._again()
                return Outcome("failed", ended, f"after {used:.1f} s", (), used, 0)
        try:
            outcome: Outcome = self._connection.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            self._again()
            return Outcome("failed", f"the process ended with {code}", "", (), 0.0, 0)
        return outcome

    def _again(self) -> None:
        self._process.kill()
        self._process.join()
        self._connection.close()
        self._start()

    def _processor_seconds(self) -> float:
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def work(connection: Connection, parent: int) -> None:
    """Try what is asked until nobody asks any more."""
    from fuzz_trying import Trying

    trying = Trying()
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # libraries in C write there
        os.dup2(quiet, stream)
    try:
        while True:
            name, data = connection.recv()
            connection.send(trying.tried(name, data))
    except (EOFError, OSError):  # the other end is closed
        pass
    finally:
        trying.close()


Try = Callable[[str, bytes], Any]
"""What gives the outcome of an input of a target."""
