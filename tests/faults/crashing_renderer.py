"""A renderer plug-in that renders normally until a configured fault is due.

CRASHING_RENDERER in the environment is JSON: `how` to fail, the number of the first view `at` which to fail, and how
many `times`. Files in `folder` count the views of all processes and list the process ids.
"""

import ctypes
import json
import os
import shutil
import signal
from pathlib import Path

from render_agent.render.rasteriser.rasteriser import Rasteriser


class CrashingRenderer(Rasteriser):
    """Renders or fails; creates the file `hangs` in its folder when it hangs."""

    name = "crashing"

    def __init__(self):
        super().__init__(threads=1)
        self.fault = json.loads(os.environ["CRASHING_RENDERER"])
        self.folder = Path(self.fault["folder"])
        append(self.folder / "processes", f"{os.getpid()}\n")

    def draw(self, scene, camera, width, height):
        number = append(self.folder / "views", "x")
        if 0 <= number - self.fault["at"] < self.fault["times"]:
            self.fail()
        return super().draw(scene, camera, width, height)

    def fail(self):
        match self.fault["how"]:
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
                ctypes.PyDLL(None).sleep(10_000)  # while holding the GIL
            case "no memory":
                raise MemoryError
            case "raise":
                raise ZeroDivisionError("injected fault")


def install(folder):
    """Install this file as a package with the renderer `crashing`; return its import path."""
    record = folder / "crashing-1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: crashing\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(
        "[render_agent.renderers]\ncrashing = crashing_renderer:CrashingRenderer\n"
    )
    shutil.copy(__file__, folder)
    return folder


def append(path, text):
    """Append to a file and return its size."""
    with path.open("a") as file:
        file.write(text)
        return file.tell()
