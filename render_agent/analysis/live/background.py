"""The process in the background of a run that precomputes for its report."""

from __future__ import annotations

import fcntl
import logging
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

from render_agent.runs.log.folder import RunFolder
from render_agent.runs.runner import Run
from render_agent.system.kept_files import kept_folder
from render_agent.system.processes import prefer_for_oom_kill, start_child

logger = logging.getLogger(__name__)

START_SECONDS = 10.0
"""A run that is over sooner starts no process for its report."""

NICENESS = 19
"""The process gets what time others leave, see nice(2)."""

END_SECONDS = 5.0
"""Waited for at the most until the process has ended: it may hang in a network's file system."""

NO_PROCESS = "no process makes what the report needs of scans: %s"


@contextmanager
def precomputing(run: Run) -> Iterator[None]:
    """Make what the report needs of the scans of a batch in a process of its own, until the block ends.

    Nothing is made where nothing is to be kept, or where the views do not show the scenes of the questions.
    """
    over, worker = threading.Event(), None
    if run.config.batch and run.config.faithful and kept_folder() is not None:
        try:
            begun = threading.Thread(target=_own_process, args=(run.path, over), daemon=True)
            begun.start()
            worker = begun
        except (MemoryError, RuntimeError) as error:  # the system starts no more threads
            logger.warning(NO_PROCESS, error)
    try:
        yield
    finally:
        over.set()
        if worker is not None:
            worker.join(END_SECONDS)


def _own_process(run: Path, over: threading.Event) -> None:
    if over.wait(START_SECONDS):
        return
    try:
        ours, process = start_child(serve, str(run), NICENESS, stderr=subprocess.DEVNULL)
    except (OSError, MemoryError) as error:
        logger.warning(NO_PROCESS, error)
        return
    with ours:
        over.wait()
    process.kill()
    process.wait()


def serve(connection: int, run: str, niceness: int) -> None:
    """Precompute for a run until the other end of a pipe is closed, as it is where the run's process dies."""
    pipe: Connection[None, None] = Connection(connection)
    os.nice(niceness)
    with suppress(OSError):  # the run's end ends this at once, in the midst of a scene too
        fcntl.fcntl(connection, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(connection, fcntl.F_SETFL, fcntl.fcntl(connection, fcntl.F_GETFL) | os.O_ASYNC)
    if pipe.poll():  # it ended before
        return
    prefer_for_oom_kill()
    # imported here alone: the run does not need them, and they take a second
    from render_agent.analysis.diagnosis.diagnose import get_ready
    from render_agent.analysis.live.precompute import precompute

    get_ready()
    precompute(RunFolder(Path(run)), pipe.poll)
