"""A renderer as a package might bring it: it draws like the program's own, and goes wrong when it is told to.

CRASHING_RENDERER in the environment is JSON: `how` it goes wrong, from view `at` on, so many `times`; `folder` has the
count of its views, over all processes, and the ids of these.
"""

import ctypes
import json
import os
import shutil
import signal
from pathlib import Path

from render_agent.render.rasteriser.rasteriser import Rasteriser


class CrashingRenderer(Rasteriser):
    """Draws, or does not; `hangs` is there in the folder once it hangs."""

    name = "crashing"

    def __init__(self):
        super().__init__(threads=1)
        self.told = json.loads(os.environ["CRASHING_RENDERER"])
        self.folder = Path(self.told["folder"])
        note(self.folder / "processes", f"{os.getpid()}\n")

    def draw(self, scene, camera, width, height):
        number = note(self.folder / "views", "x")
        if 0 <= number - self.told["at"] < self.told["times"]:
            self.go_wrong()
        return super().draw(scene, camera, width, height)

    def go_wrong(self):
        match self.told["how"]:
            case "crash":
                ctypes.string_at(0)
            case "abort":
                os.abort()
            case "exit":
                os._exit(3)
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                (self.folder / "hangs").touch()
                while True:
                    signal.pause()
            case "hang in native code":
                (self.folder / "hangs").touch()
                ctypes.PyDLL(None).sleep(10_000)  # with the interpreter's lock held
            case "no memory":
                raise MemoryError
            case "raise":
                raise ZeroDivisionError("by a made fault")


def installed(folder):
    """Install this file as a package that brings the renderer `crashing`; return where Python is to look."""
    record = folder / "crashing-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(
        "[render_agent.renderers]\ncrashing = crashing_renderer:CrashingRenderer\n"
    )
    shutil.copy(__file__, folder)
    return folder


def note(path, text):
    """Append to a file; return how long it is then."""
    with path.open("a") as file:
        file.write(text)
        return file.tell()
