"""What goes wrong inside a process of the program: installed before it begins, done at a counted moment.

A moment is a number among the ticks of one sort: `writes` are operations that change something below the
folder of the runs, `anything` is every operation of which the interpreter tells its audit hooks, `draws`,
`answers` and `loads` are calls of the renderer, the engine and the reader of scans.
"""

from __future__ import annotations

import errno
import importlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

CALLS = {
    "draws": ("render_agent.render.rasteriser.renderer", "Rasteriser", "draw"),
    "answers": ("render_agent.engines.scripted.engine", "ScriptedEngine", "answer"),
    "loads": ("render_agent.scene.formats.load", None, "_read"),
}
"""The function whose calls are the ticks of a sort."""

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Fault:
    """Counts the ticks of one sort in this process, and does its deed at one of them.

    deed: a name of DEEDS. at: the number of the tick, from 1; 0 only counts. sort: of the ticks. below: the
    folder of the runs. note: a file that is written when the deed is done, or with the counts at the end.
    """

    def __init__(self, deed: str, at: int, sort: str, below: str, note: str, **more) -> None:
        self.deed, self.at, self.sort, self.more = deed, at, sort, more
        self.below, self.note = os.path.realpath(below), Path(note)
        self.counts = dict.fromkeys(("writes", "anything", *CALLS), 0)
        self.done = False
        self._lock = threading.Lock()
        self._inside = threading.local()

    def install(self) -> None:
        """Begin to count."""
        from render_agent.runs.log import folder
        from render_agent.system import whole_files as files

        write_all, fsync = files.write_all, os.fsync

        def written(file: io.FileIO, content: bytes) -> None:
            self.tick("writes", file=file, content=content)
            write_all(file, content)

        def synced(number: int) -> None:
            self.tick("writes")
            fsync(number)

        folder.write_all, os.fsync = written, synced
        for sort, (module, owner, name) in CALLS.items():
            place = importlib.import_module(module)
            self._count_calls(sort, getattr(place, owner) if owner else place, name)
        sys.addaudithook(self._audit)

    def _count_calls(self, sort: str, owner, name: str) -> None:
        call = getattr(owner, name)

        def counted(*given, **named):
            self.tick(sort)
            return call(*given, **named)

        setattr(owner, name, counted)

    def _audit(self, event: str, given: tuple) -> None:
        if getattr(self._inside, "busy", False):
            return
        changes = event in ("os.rename", "os.mkdir", "os.remove", "os.truncate") or (
            event == "open" and isinstance(given[2], int) and given[2] & WRITING
        )
        if changes and self._is_below(given):
            self.tick("writes")
        self.tick("anything")

    def _is_below(self, given: tuple) -> bool:
        paths = [os.fsdecode(place) for place in given[:2] if isinstance(place, str | bytes)]
        return any(self.below in os.path.abspath(path) for path in paths)  # noqa: PTH100 - in a hook

    def tick(self, sort: str, **what) -> None:
        """Count one, and do the deed where it is the one."""
        with self._lock:
            self.counts[sort] += 1
            due = sort == self.sort and self.at and self.counts[sort] >= self.at
            first = due and not self.done
            self.done = self.done or bool(due)
        if first or (due and self.deed in LASTING):
            self._inside.busy = True
            try:
                if first:
                    self.note.write_text(json.dumps({"done": self.counts[sort]}))
                DEEDS[self.deed](self, **what)
            finally:
                self._inside.busy = False

    def ended(self) -> None:
        """Write down how many ticks there were, where nothing was to be done."""
        self._inside.busy = True
        if not self.at:
            self.note.write_text(json.dumps(self.counts))


def _kill(fault: Fault, **_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _send(fault: Fault, **_: object) -> None:
    os.kill(os.getpid(), fault.more["signal"])


def _fail(fault: Fault, file: io.FileIO | None = None, content: bytes = b"") -> None:
    """Fail a write as the operating system does, after a part of it."""
    if file is not None:
        file.write(content[: len(content) * fault.more.get("percent", 0) // 100])
    number = getattr(errno, fault.more["error"])
    raise OSError(number, os.strerror(number))


def _slow(fault: Fault, **_: object) -> None:
    time.sleep(fault.more["seconds"])


def _fill(fault: Fault, **_: object) -> None:
    """Take all the room that the disk of the runs has, but for some bytes."""
    with (Path(fault.below).parent / "filler").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            file.truncate(max(0, file.seek(0, 2) - fault.more.get("left", 0)))


def _remove(fault: Fault, **_: object) -> None:
    """Delete the run folder, or move it away, as somebody who tidies up."""
    for folder in Path(fault.below).glob("2*"):
        if fault.more["how"] == "moved":
            folder.rename(Path(fault.below).parent / "elsewhere")
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _no_memory(fault: Fault, **_: object) -> None:
    raise MemoryError


def _little_memory(fault: Fault, **_: object) -> None:
    """Leave the process so many bytes of address space beyond what it has."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + fault.more["bytes"]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _clock_back(fault: Fault, **_: object) -> None:
    """Let the clock of the wall show what it showed some seconds ago."""
    set_back(fault.more["seconds"])


def _hold(fault: Fault, **_: object) -> None:
    """Stop until there is a file."""
    while not Path(fault.more["until"]).exists():
        time.sleep(0.02)


def set_back(seconds: float) -> None:
    """Set back the clock of this process."""
    import datetime as module

    real, time_ns = time.time, time.time_ns

    class Late(module.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(time.time(), tz)

    time.time = lambda: real() - seconds
    time.time_ns = lambda: time_ns() - int(seconds * 1e9)
    for known in [*sys.modules.values()]:
        name = getattr(known, "__name__", "")
        if name.startswith("render_agent") and vars(known).get("datetime") is module.datetime:
            known.datetime = Late


DEEDS = {
    "kill": _kill,
    "signal": _send,
    "fail": _fail,
    "fail once": _fail,
    "slow": _slow,
    "fill": _fill,
    "remove": _remove,
    "no memory": _no_memory,
    "no more memory": _no_memory,
    "little memory": _little_memory,
    "clock back": _clock_back,
    "hold": _hold,
}

LASTING = ("fail", "slow", "no more memory")
"""Deeds that are done at every tick from their moment on."""
