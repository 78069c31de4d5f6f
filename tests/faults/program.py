"""The program with an injected fault: `program.py FAULT WORDS …`; FAULT is JSON with the arguments of `Fault`.

A fault occurs at an event of one kind: `writes` are changes in the runs folder; `draws`, `answers` and `loads` are
calls of the renderer, the engine and the scan loader.
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
    """Counts events and acts at one of them; without an action, only writes the counts to the file `note`."""

    def __init__(self, folder, note, kind="writes", at=0, action=None, **options):
        self.folder, self.note = os.path.realpath(folder), Path(note)
        self.kind, self.at, self.action, self.options = kind, at, action, options
        self.counts = dict.fromkeys(("writes", *CALLS), 0)
        self._inside = threading.local()

    def install(self):
        from render_agent.runs.log import writer

        write_all, fsync = writer.write_all, os.fsync

        def counting_write(file, content):
            self.count("writes", file, content)
            write_all(file, content)

        def counting_fsync(number):
            self.count("writes")
            fsync(number)

        writer.write_all, os.fsync = counting_write, counting_fsync
        for kind, (module, owner, name) in CALLS.items():
            module = importlib.import_module(module)
            self._count_calls(kind, getattr(module, owner) if owner else module, name)
        sys.addaudithook(self._audit)

    def _count_calls(self, kind, owner, name):
        call = getattr(owner, name)

        def counting_call(*args, **kwargs):
            self.count(kind)
            return call(*args, **kwargs)

        setattr(owner, name, counting_call)

    def _audit(self, event, args):
        if getattr(self._inside, "busy", False):
            return
        changes = event in ("os.rename", "os.mkdir", "os.remove", "os.truncate") or (
            event == "open" and isinstance(args[2], int) and args[2] & WRITING
        )
        paths = [os.fsdecode(path) for path in args[:2] if isinstance(path, str | bytes)]
        if changes and any(self.folder in os.path.abspath(path) for path in paths):  # noqa: PTH100
            self.count("writes")

    def count(self, kind, file=None, content=b""):
        self.counts[kind] += 1
        if kind != self.kind or not self.action or self.counts[kind] < self.at:
            return
        if self.counts[kind] == self.at or self.action == "fail":
            self._inside.busy = True
            try:
                self.note.touch()
                getattr(self, self.action)(file, content)
            finally:
                self._inside.busy = False

    def signal(self, file, content):
        os.kill(os.getpid(), self.options["number"])

    def fail(self, file, content):
        """Fail every write from now on, after a partial line."""
        if file is not None:
            file.write(content[: len(content) // 3])
        number = getattr(errno, self.options["error"])
        raise OSError(number, os.strerror(number))

    def no_memory(self, file, content):
        raise MemoryError

    def remove(self, file, content):
        for path in Path(self.folder).glob("2*"):
            shutil.move(path, self.options["to"])

    def hold(self, file, content):
        while not Path(self.options["until"]).exists():
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
        if not fault.action:
            fault.note.write_text(json.dumps(fault.counts))


if __name__ == "__main__":
    main()
