"""Parse untrusted files in a child process, because a malformed one may crash or hang a library or exhaust memory."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

import psutil

from render_agent.errors import SceneError
from render_agent.scans.formats.cleaning import unreadable
from render_agent.util.processes import prefer_for_oom_kill, signal_name, start_child
from render_agent.util.reasons import reason_of

# Timeout of the child process: MIN_SECONDS plus SECONDS_PER_MEGABYTE per megabyte.
MIN_SECONDS = 600.0
SECONDS_PER_MEGABYTE = 5.0

MIN_MEMORY_BYTES = 2 << 30  # memory limit of the child process is at least this

T = TypeVar("T")


class NeedsChildProcess(Exception):
    """The scan needs so much memory that it must be read in a child process."""


class ScanRejectedError(Exception):
    """The scan is rejected by code that does not know its path; the arguments are the reason and the remedy."""


@contextmanager
def parser_errors(path: Path, format_name: str) -> Iterator[None]:
    """Turn any exception a parser raises on a malformed file of format `format_name` into a SceneError.

    Errors that are not the file's fault pass through: I/O and memory errors, NeedsChildProcess, and exceptions that
    end the program.
    """
    try:
        yield
    except (SceneError, NeedsChildProcess, MemoryError, OSError):
        raise
    except ScanRejectedError as error:
        raise unreadable(path, *error.args) from None
    # Parsers raise arbitrary exceptions, and Rust panics are not subclasses of Exception.
    except BaseException as error:
        if not (isinstance(error, Exception) or type(error).__name__ == "PanicException"):
            raise
        raise unreadable(
            path, f"it is not a valid {format_name} file ({reason_of(error)})"
        ) from error


def read_in_child(reader: Callable[..., T], path: Path, size: int, *options: str) -> T:
    """Call a reader in a child process, with these options as True."""
    seconds = MIN_SECONDS + SECONDS_PER_MEGABYTE * size / 1e6
    ours, process = start_child(
        serve,
        reader.__module__,
        reader.__name__,
        str(path),
        size,
        *options,
        stderr=subprocess.DEVNULL,  # libraries only repeat their exceptions there
    )
    try:
        if not ours.poll(seconds):
            raise unreadable(path, f"reading it took longer than {seconds:.0f} s")
        result: T | SceneError | MemoryError | OSError = ours.recv()
    except EOFError:
        code = process.wait(10)
        ending = "exited" if code >= 0 else f"crashed ({signal_name(code)})"
        raise unreadable(path, f"its parser {ending}") from None
    finally:
        ours.close()
        process.kill()
        process.wait()
    if isinstance(result, SceneError | MemoryError | OSError):
        raise result
    return result


def serve(connection: int, module: str, function: str, path: str, size: int, *options: str) -> None:
    """Entry point of the child process: read one file and send the scan or the error to the parent.

    The process may use half of the available memory, because the result exists twice while it is sent. If memory
    runs out, the kernel kills this process first.
    """
    pipe: Connection[Any, None] = Connection(connection)
    prefer_for_oom_kill()
    limit = max(MIN_MEMORY_BYTES, psutil.virtual_memory().available // 2)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        reader = getattr(import_module(module), function)
        pipe.send(reader(Path(path), size, **dict.fromkeys(options, True)))
    except (SceneError, MemoryError, OSError) as error:
        pipe.send(error)
