"""One input tried: did it end as it has to, how long did it take, how much memory?"""

from __future__ import annotations

import contextlib
import io
import re
import resource
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from fuzz_bounds import MOST_MEMORY, MOST_SECONDS, MOST_WORDS
from fuzz_lines import PACKAGE, Line, Lines
from fuzz_targets import TARGETS, Target

from render_agent.errors import RenderAgentError
from render_agent.system.memory import bounded_memory

PAGE = resource.getpagesize()


@dataclass(frozen=True)
class Outcome:
    """How an input ended: taken, refused in one sentence, or in a fault.

    fault: what was wrong and where, the same for inputs that fail alike; empty where nothing was. told:
    the sentence, or all that is known of the fault. memory: bytes at the peak, beyond those before.
    """

    ended: str
    fault: str
    told: str
    new: tuple[Line, ...]
    seconds: float
    memory: int


class TooLong(BaseException):
    """An input took more of the processor than it may; no handler of errors stops it."""


class Trying:
    """Tries inputs in this process, each target in a folder of its own."""

    def __init__(self) -> None:
        self._folders = tempfile.TemporaryDirectory(prefix="fuzz-")
        self._lines: dict[str, Lines] = {}

    def close(self) -> None:
        """Remove what was written."""
        self._folders.cleanup()

    def tried(self, name: str, data: bytes) -> Outcome:
        """Return how an input of a target ended."""
        target, folder = TARGETS[name], Path(self._folders.name, name)
        if name not in self._lines:
            self._lines[name] = Lines()
            folder.mkdir()
            target.prepare(folder)
            for (
                seed
            ) in target.seeds():  # whatever is imported late is there before memory is measured
                _ended(target, seed, folder)
        lines = self._lines[name]
        began, before = time.process_time(), _forget_peak()
        with _limited(), lines:
            ended, fault, told = _ended(target, data, folder)
        seconds, memory = time.process_time() - began, max(0, _peak() - before)
        if not fault and memory > MOST_MEMORY:
            fault, told = "memory", f"{memory:,} bytes"
        return Outcome(ended, fault, told, tuple(lines.new), seconds, memory)


def _ended(target: Target, data: bytes, folder: Path) -> tuple[str, str, str]:
    """Return how an input ended, its fault, and what is told of either."""
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error", RuntimeWarning)
            target.run(data, folder)
    except (RenderAgentError, click.ClickException) as error:
        if isinstance(error, click.ClickException):  # its words are those of click
            return "refused", "", error.format_message()
        return "refused", _fault_of_refusal(error, str(error)), str(error)
    except (Exception, TooLong) as error:  # noqa: BLE001 - which it is, is what is looked for
        return "failed", f"{type(error).__name__} in {_place(error)}", traceback.format_exc()
    return "taken", "", ""


def _fault_of_refusal(error: BaseException, told: str) -> str:
    """Return what is wrong with the way in which an input was refused, nothing where all is well."""
    if any(isinstance(cause, MemoryError) for cause in _causes(error)):
        return f"memory in {_place(error)}"
    if not told.strip() or "\n" in told or len(told) > MOST_WORDS:
        return f"no sentence in {_place(error)}"
    return ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        # what the program bounded by itself is no fault
        bounded = traceback.extract_tb(error.__traceback__)[-1:]
        own = any(frame.name == bounded_memory.__name__ for frame in bounded)
        error = error.__cause__ or (None if own else error.__context__)


def _place(error: BaseException) -> str:
    """Return the last place in the package, or in the tests, that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename.startswith(str(PACKAGE))]
    last = (own or frames)[-1]
    return f"{Path(last.filename).name}:{last.name}"


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Bound the address space and the processor's time of what follows."""

    def stop(*_: Any) -> None:
        raise TooLong(f"more than {MOST_SECONDS:g} s of the processor")

    hardest = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = int(Path("/proc/self/statm").read_text().split()[0]) * PAGE + MOST_MEMORY
    handler = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (most, hardest))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, hardest))
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)


def _forget_peak() -> int:
    """Begin anew to look for the peak of the pages in use; return the bytes in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def _peak() -> int:
    """Return the bytes that were in use at the most."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) << 10
