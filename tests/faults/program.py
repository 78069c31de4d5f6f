"""The program with an injected fault: `program.py FAULT WORDS …`, where FAULT is JSON with arguments of `Fault`.

Faults occur at a tick of one sort: `writes` are changes in the runs folder; `draws`, `answers` and `loads` are calls of
the renderer, the engine and the scan loader.
"""

import errno
import importlib
import json
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

CALLS = {
    "draws": ("render_agent.render.rasteriser.rasteriser", "Rasteriser", "draw"),
    "answers": ("render_agent.engines.scripted.scripted_engine", "ScriptedEngine", "answer"),
    "loads": ("render_agent.scans.formats.load", None, "_read"),
}
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Fault:
    """Counts ticks and acts at one of them; without a deed, only writes the count to the file `note`."""

    def __init__(self, below, note, sort="writes", at=0, deed=None, **more):
        self.below, self.note = os.path.realpath(below), Path(note)
        self.sort, self.at, self.deed, self.more = sort, at, deed, more
        self.counts = dict.fromkeys(("writes", *CALLS), 0)
        self._inside = threading.local()

    def install(self):
        from render_agent.runs.log import writer

        write_all, fsync = writer.write_all, os.fsync

        def written(file, content):
            self.tick("writes", file, content)
            write_all(file, content)

        def synced(number):
            self.tick("writes")
            fsync(number)

        writer.write_all, os.fsync = written, synced
        for sort, (module, owner, name) in CALLS.items():
            place = importlib.import_module(module)
            self._count_calls(sort, getattr(place, owner) if owner else place, name)
        sys.addaudithook(self._audit)

    def _count_calls(self, sort, owner, name):
        call = getattr(owner, name)

        def counted(*args, **kwargs):
            self.tick(sort)
            return call(*args, **kwargs)

        setattr(owner, name, counted)

    def _audit(self, event, given):
        if getattr(self._inside, "busy", False):
            return
        changes = event in ("os.rename", "os.mkdir", "os.remove", "os.truncate") or (
            event == "open" and isinstance(given[2], int) and given[2] & WRITING
        )
        paths = [os.fsdecode(place) for place in given[:2] if isinstance(place, str | bytes)]
        if changes and any(self.below in os.path.abspath(path) for path in paths):  # noqa: PTH100
            self.tick("writes")

    def tick(self, sort, file=None, content=b""):
        self.counts[sort] += 1
        if sort != self.sort or not self.deed or self.counts[sort] < self.at:
            return
        if self.counts[sort] == self.at or self.deed == "fail":
            self._inside.busy = True
            try:
                self.note.touch()
                getattr(self, self.deed)(file, content)
            finally:
                self._inside.busy = False

    def signal(self, file, content):
        os.kill(os.getpid(), self.more["number"])

    def fail(self, file, content):
        """Fail every write from now on, after a partial line."""
        if file is not None:
            file.write(content[: len(content) // 3])
        number = getattr(errno, self.more["error"])
        raise OSError(number, os.strerror(number))

    def no_memory(self, file, content):
        raise MemoryError

    def remove(self, file, content):
        for folder in Path(self.below).glob("2*"):
            shutil.move(folder, self.more["to"])

    def hold(self, file, content):
        while not Path(self.more["until"]).exists():
            time.sleep(0.02)


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in background jobs
    fault = Fault(**json.loads(sys.argv[1]))
    fault.install()
    from render_agent.cli.main import main as program

    sys.argv = [str(Path(__file__).parents[2] / "render_agent" / "__main__.py"), *sys.argv[2:]]
    try:
        program()
    finally:
        fault._inside.busy = True
        if not fault.deed:
            fault.note.write_text(json.dumps(fault.counts))


if __name__ == "__main__":
    main()
