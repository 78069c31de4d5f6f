"""Untrusted files read in a child process, as a broken one may crash, hang or blow up a library; each fault is a SceneError."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from render_agent.errors import SceneError
from render_agent.scans.formats.cleaning import Scan, unreadable
from render_agent.util.processes import prefer_for_oom_kill, signal_name, start_child
from render_agent.util.reasons import reason_of

LEAST_SECONDS = 600.0
SECONDS_A_MEGABYTE = 5.0
"""A file that takes longer than these together is never read."""

MIN_MEMORY_BYTES = 2 << 30

Reader = Callable[[Path, int], Scan]


class NeedsProcess(Exception):
    """A scan takes so much memory that it is read in a process of its own."""


class Refused(Exception):
    """A scan is refused by a part of its reader that does not know the path: why, and what to do about it."""


@contextmanager
def parser_errors(path: Path, form: str) -> Iterator[None]:
    """Turn whatever a library raises over a broken file into a SceneError: it is no whole file of the format `form`.

    What is no fault of the file passes: errors of the file system and of memory, NeedsProcess, and whatever ends
    the program.
    """
    try:
        yield
    except (SceneError, NeedsProcess, MemoryError, OSError):
        raise
    except Refused as error:
        raise unreadable(path, *error.args) from None
    # Parsers raise whatever their line of code happens to raise, and Rust's panics are no Exception.
    except BaseException as error:
        if not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise
        raise unreadable(path, f"it is no whole {form} file ({reason_of(error)})") from error


def read_apart(reader: Reader, path: Path, size: int) -> Scan:
    """Return what a function of a module reads from a file of `size` bytes, in a process of its own.

    SceneError where that process ends, or takes longer than any whole file would.
    """
    seconds = LEAST_SECONDS + SECONDS_A_MEGABYTE * size / 1e6
    ours, process = start_child(
        serve,
        reader.__module__,
        reader.__name__,
        str(path),
        size,
        stderr=subprocess.DEVNULL,  # libraries tell there what their exceptions tell, too
    )
    try:
        if not ours.poll(seconds):
            raise unreadable(path, f"reading it does not end in {seconds:.0f} s")
        result: Scan | SceneError | MemoryError | OSError = ours.recv()
    except EOFError:
        code = process.wait(10)
        ending = "ended" if code >= 0 else f"crashed ({signal_name(code)})"
        raise unreadable(path, f"the library that reads it {ending} over it") from None
    finally:
        ours.close()
        process.kill()
        process.wait()
    if isinstance(result, Scan):
        return result
    raise result


def serve(connection: int, module: str, function: str, path: str, size: int) -> None:
    """Read one file, and send the scan or the error to the parent.

    This process may take half of the memory that is free: what it sends is held twice on either side. It is the
    first that the system ends if memory runs out.
    """
    pipe: Connection[Scan | Exception, None] = Connection(connection)
    prefer_for_oom_kill()
    most = max(MIN_MEMORY_BYTES, psutil.virtual_memory().available // 2)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    try:
        pipe.send(getattr(import_module(module), function)(Path(path), size))
    except (SceneError, MemoryError, OSError) as error:
        pipe.send(error)
