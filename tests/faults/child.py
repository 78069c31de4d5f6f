"""The program in a process of its own, with a fault in it; forked off a process that has it loaded, or fresh.

Run as a program, this file is `render-agent` with a fault: child.py FAULT.json WORDS …
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from injected import Fault

TREE = Path(__file__).parents[2]

PATIENCE = float(os.environ.get("PATIENCE_SECONDS", 60))
"""Seconds after which a process counts as one that hangs; more are given where others use the machine."""


@dataclass(frozen=True)
class Ended:
    """How a process ended: its exit code (negative: the signal that killed it), and what it said."""

    code: int
    told: str
    hung: bool = False


class Child:
    """One process of the program.

    words: as they are typed. folder: the working directory. log: where what it says goes. fault: what
    `Fault` is made of, None for none. fresh: started anew rather than forked off this process.
    """

    def __init__(
        self, words: list[str], folder: Path, log: Path, fault: dict | None, *, fresh: bool
    ) -> None:
        self.log = log
        self._status: int | None = None
        if fresh:
            given = [sys.executable, __file__, json.dumps(fault), *words]
            with log.open("wb") as out:
                started = subprocess.Popen(
                    given,
                    cwd=folder,
                    stdout=out,
                    stderr=out,
                    env={**os.environ, "PYTHONPATH": str(TREE), "NO_COLOR": "1"},
                )
            self.process = started.pid
            started.returncode = 0  # it is waited for here
        else:
            self.process = os.fork() or self._be(words, folder, fault)

    def _be(self, words: list[str], folder: Path, fault: dict | None) -> int:
        code = 1
        try:
            out = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
            for number in (1, 2):
                os.dup2(out, number)
            os.chdir(folder)
            faulthandler.enable(2)
            code = run(words, fault)
        except BaseException:  # noqa: BLE001 - the process ends here
            traceback.print_exc()
        finally:
            os._exit(code)

    def ended(self) -> bool:
        """Whether it came to an end."""
        if self._status is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self._status = status
        return self._status is not None

    def wait(self, seconds: float = PATIENCE) -> Ended:
        """Wait for its end; kill it where it does not come, once it was asked where it hangs."""
        end, pause = time.monotonic() + seconds, 0.002
        while not self.ended() and time.monotonic() < end:
            time.sleep(pause)
            pause = min(0.05, pause * 1.5)
        hung = not self.ended()
        if hung:
            os.kill(self.process, signal.SIGABRT)  # faulthandler writes where every thread is
            time.sleep(1.0)
            os.kill(self.process, signal.SIGKILL)
            _, self._status = os.waitpid(self.process, 0)
        told = self.log.read_text("utf-8", "replace")
        return Ended(os.waitstatus_to_exitcode(self._status or 0), told, hung)


def run(words: list[str], fault: dict | None, *, ends: bool = True) -> int:
    """Be the program until it ends; return its exit code. ends: whether the process ends with it."""
    from render_agent.cli.main import main

    # what a shell starts in the background ignores it, and so would this
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.argv = [str(TREE / "render_agent" / "__main__.py"), *words]
    installed = None
    if fault is not None:
        fault = dict(fault)
        if "site" in fault:
            sys.path.insert(0, fault["site"])
        for name, value in fault.pop("environment", {}).items():
            os.environ[name] = value
        for place, value in fault.pop("settings", {}).items():
            module, _, name = place.rpartition(".")
            setattr(__import__(module, fromlist=[name]), name, value)
        if "impatient" in fault:
            wait_no_longer(Path(fault.pop("impatient")))
        if "deed" in fault:
            installed = Fault(**fault)
            installed.install()
    try:
        main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:  # noqa: BLE001 - as the interpreter does it
        sys.excepthook(*sys.exc_info())
        code = 1
    if not ends:
        return code
    threading._shutdown()  # as the interpreter does it: a thread that hangs keeps the process
    atexit._run_exitfuncs()
    if installed is not None:
        installed.ended()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    return code


def wait_no_longer(hangs: Path) -> None:
    """Let this process wait for a view until a file says that it never comes, and then no longer.

    So a renderer that hangs is told from a machine that is slow.
    """
    from render_agent.render.subprocess_renderer import DrawingProcess

    receive = DrawingProcess._receive

    def received(process: DrawingProcess, seconds: float):
        while not process._connection.poll(0.05):
            if hangs.exists():
                hangs.unlink()
                return receive(process, 0.0)
        return receive(process, seconds)

    DrawingProcess._receive = received


if __name__ == "__main__":
    faulthandler.enable(2)
    sys.exit(run(sys.argv[2:], json.loads(sys.argv[1])))
