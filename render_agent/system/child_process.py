"""A child process that calls one function and has a pipe to this one, for libraries that may crash, hang or leak."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any


def start_child(
    function: Callable[..., object], *arguments: str | int, stderr: int | None = None
) -> tuple[Connection[Any, Any], subprocess.Popen[bytes]]:
    """Start a process that calls a module's function; return this end of its pipe, and the process.

    function: is handed the file descriptor of its own end, then the arguments. stderr: where its standard error goes,
    as `subprocess` has it; what it writes on standard output is lost.
    """
    ours, theirs = Pipe()
    values = ", ".join(map(repr, (theirs.fileno(), *arguments)))
    program = (
        f"import sys; sys.path[:] = {sys.path!r}; from {function.__module__} import {function.__name__};"
        f" {function.__name__}({values})"
    )
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # that is for the results of a run, and nothing else
            stderr=stderr,
            pass_fds=[theirs.fileno()],
            process_group=0,  # Ctrl-C is for the run, which then ends this
        )
    return ours, process


def prefer_for_oom_kill() -> None:
    """Have the system end this process before all others where memory runs out; does nothing where it cannot, see proc(5)."""
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def signal_name(return_code: int) -> str:
    """Return the name of the signal that ended a process; return_code: below 0."""
    try:
        return signal.Signals(-return_code).name
    except ValueError:
        return f"signal {-return_code}"
