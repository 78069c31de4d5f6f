"""Operating-system libraries that pip cannot install, and the packages that need them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SystemLibrary:
    """A system library: its file name for the loader, its Debian package, and what needs it."""

    name: str
    package: str
    needed_by: str


LIBRARIES = (
    SystemLibrary("libGL.so.1", "libgl1", "open3d and pyrender"),
    SystemLibrary("libEGL.so.1", "libegl1", "pyrender"),
    SystemLibrary("libgomp.so.1", "libgomp1", "open3d and torch"),
    SystemLibrary("libusb-1.0.so.0", "libusb-1.0-0", "open3d"),
)

SOFTWARE_DRIVER = SystemLibrary(
    "Mesa's software driver", "libgl1-mesa-dri", "pyrender on a machine without a GPU"
)
# file names of Mesa's software driver below a library folder, before and since Mesa 24.2
DRIVER_FILES = ("dri/swrast_dri.so", "libgallium-*.so")

LIBRARY_FOLDERS = ("/usr/lib", "/usr/lib64", "/usr/lib/*-linux-gnu")


def missing_libraries() -> list[SystemLibrary]:
    """Return the required libraries that are not installed."""
    not_loadable = [library for library in LIBRARIES if not _loads(library.name)]
    return not_loadable if _has_driver() else [*not_loadable, SOFTWARE_DRIVER]


def install_command(libraries: list[SystemLibrary]) -> str:
    """Return the Debian/Ubuntu command that installs `libraries`."""
    return "sudo apt-get install " + " ".join(library.package for library in libraries)


def _loads(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


def _has_driver() -> bool:
    root = Path("/")
    return any(
        any(root.glob(f"{folder[1:]}/{file}"))
        for folder in LIBRARY_FOLDERS
        for file in DRIVER_FILES
    )
