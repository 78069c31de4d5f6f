"""The machine itself: Python, packages and the parts that they bring, cores, memory, disk, system libraries."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.cli.commands.doctor.probe import Finding, ask
from render_agent.system.memory import main_memory
from render_agent.system.processes import cores
from render_agent.system.system_libraries import install_command, missing

PART, PACKAGES_PART = "machine", "packages"

PACKAGES = ("click", "rich", "pyyaml", "numpy", "scipy", "numba", "pillow")
"""What every run needs."""

ENGINE_PACKAGES = "torch torchvision transformers accelerate safetensors qwen-vl-utils".split()
SCAN_PACKAGES = ("trimesh",)

LITTLE_MEMORY, LITTLE_DISK = 2.0, 1.0
"""GiB below which a run is likely to fail."""

IMPORT_SECONDS = 120.0
"""How long importing a part may take."""


def examine_machine(output: Path) -> Iterator[Finding]:
    """Give the findings about the machine. output: the folder that runs are written to."""
    yield _python()
    yield Finding(PART, "cores", True, f"{cores()} ({platform.machine()}, {platform.platform()})")
    yield _memory()
    yield _disk(output)
    yield _packages("packages", PACKAGES, "render_agent", needed=True)
    yield _packages("engine packages", ENGINE_PACKAGES, "render_agent")
    yield _packages("scan packages", SCAN_PACKAGES, "render_agent")
    yield _packages("report packages", ("matplotlib",), "render_agent[report]")
    yield _packages("view packages", ("starlette", "uvicorn"), "render_agent[view]")
    yield _libraries()


def _python() -> Finding:
    works = sys.version_info >= (3, 11)
    detail = f"{platform.python_version()} ({sys.executable})"
    return Finding(PART, "Python", works, detail, "install Python 3.11 or newer", needed=True)


def _memory() -> Finding:
    total, free = memory()
    works = free >= LITTLE_MEMORY
    remedy = f"end other programs: below {LITTLE_MEMORY:.0f} GiB large scans do not fit"
    return Finding(PART, "memory", works, f"{total:.1f} GiB, {free:.1f} GiB free", remedy)


def memory() -> tuple[float, float]:
    """Return the memory of this machine, or of the container it is, and what is free, in GiB."""
    total, free = main_memory()
    return total / 2**30, free / 2**30


def _disk(output: Path) -> Finding:
    folder = next(path for path in (output.resolve(), *output.resolve().parents) if path.exists())
    free = shutil.disk_usage(folder).free / 2**30
    if not os.access(folder, os.W_OK):
        remedy = "choose a folder that can be written with --output DIR"
        return Finding(PART, "disk", False, f"{folder} cannot be written", remedy, needed=True)
    works = free >= LITTLE_DISK
    remedy = "free some space, or choose another disk with --output DIR"
    return Finding(PART, "disk", works, f"{free:.1f} GiB free at {folder}", remedy)


def _packages(name: str, packages: Iterable[str], install: str, *, needed: bool = False) -> Finding:
    installed, lacking = [], []
    for package in packages:
        known = [(p, v) for p in package.split("|") if (v := _version(p)) is not None]
        installed += [f"{p} {v}" for p, v in known[:1]]
        lacking += [] if known else [package.split("|")[0]]
    detail = ", ".join(installed)
    if not lacking:
        return Finding(PART, name, True, detail, needed=needed)
    detail = "; ".join([*filter(None, [detail]), f"not installed: {', '.join(lacking)}"])
    return Finding(PART, name, False, detail, f'pip install "{install}"', needed=needed)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _libraries() -> Finding:
    lacking = missing()
    if not lacking:
        return Finding(PART, "system libraries", True, "all are here")
    detail = "; ".join(
        f"{library.name} is missing, needed by {library.needed_by}" for library in lacking
    )
    return Finding(PART, "system libraries", False, detail, install_command(lacking))


def examine_packages() -> Iterator[Finding]:
    """Give of every part that an installed package brings whether it can be imported, in a process of its own."""
    for kind in registry.GROUPS:
        for name in registry.brought(kind):
            answer = ask(__name__, "import_part", kind, name, seconds=IMPORT_SECONDS)
            remedy = "" if answer.explained else "fix the package that brings it, or uninstall it"
            if (detail := answer.error or answer.found["package"]) is None:  # render_agent_lab's
                continue
            yield Finding(PACKAGES_PART, f"{kind} {name}", answer.error is None, detail, remedy)


def import_part(kind: registry.Kind, name: str) -> dict[str, Any]:
    """Import what makes a part, and return the package that brings it. SetupError as in `registry.load`."""
    registry.load(kind, name)
    return {"package": registry.package(kind, name)}
