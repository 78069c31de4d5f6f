"""Checks of the machine: Python, cores, memory, disk, system libraries, packages, and plug-ins."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.cli.commands.doctor.checks import Check, run_probe
from render_agent.extras import EXTRAS
from render_agent.util.memory import available_memory
from render_agent.util.processes import count_cores
from render_agent.util.system_libraries import install_command, missing_libraries

PART = "machine"

MIN_FREE_GIB = 2.0  # free memory below which large scans do not fit
MIN_DISK_GIB = 1.0  # free disk below which a run is likely to fail

IMPORT_SECONDS = 120.0


def machine_checks(output: Path) -> Iterator[Check]:
    """Yield the checks of the machine; `output` is the folder for run folders."""
    yield Check(PART, "Python", True, f"{platform.python_version()} ({sys.executable})")
    yield Check(
        PART, "cores", True, f"{count_cores()} ({platform.machine()}, {platform.platform()})"
    )
    total, free = (count / 2**30 for count in available_memory())
    remedy = f"close other programs; large scans need {MIN_FREE_GIB:.0f} GiB"
    detail = f"{total:.1f} GiB, {free:.1f} GiB free"
    yield Check(PART, "memory", free >= MIN_FREE_GIB, detail, remedy)
    yield _disk(output)
    yield _system_libraries()
    for extra in ("", *sorted(set(EXTRAS.values()))):
        yield _packages(extra)


def _disk(output: Path) -> Check:
    folder = next(path for path in (output.resolve(), *output.resolve().parents) if path.exists())
    if not os.access(folder, os.W_OK):
        remedy = "choose a writable folder with --output DIR"
        return Check(PART, "disk", False, f"{folder} is not writable", remedy, needed=True)
    free = shutil.disk_usage(folder).free / 2**30
    remedy = "free disk space, or choose another disk with --output DIR"
    return Check(PART, "disk", free >= MIN_DISK_GIB, f"{free:.1f} GiB free at {folder}", remedy)


def _system_libraries() -> Check:
    missing_packages = missing_libraries()
    detail = "; ".join(
        f"{library.name} is missing (needed by {library.needed_by})" for library in missing_packages
    )
    remedy = install_command(missing_packages)
    return Check(PART, "system libraries", not missing_packages, detail or "all installed", remedy)


def _packages(extra: str) -> Check:
    """Check whether the packages of an extra, or of the core installation, are installed."""
    versions = {name: _version(name) for name in _required_packages(extra)}
    missing_packages = [name for name, version in versions.items() if version is None]
    detail = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    if missing_packages:
        detail = "; ".join(
            [*filter(None, [detail]), f"not installed: {', '.join(missing_packages)}"]
        )
    name, package = (
        (f"extra {extra}", f"render_agent[{extra}]") if extra else ("packages", "render_agent")
    )
    return Check(
        PART, name, not missing_packages, detail, f'pip install "{package}"', needed=not extra
    )


def _required_packages(extra: str) -> Iterator[str]:
    """Yield the packages that render_agent requires, or that an extra adds."""
    from packaging.requirements import Requirement

    for requirement in map(Requirement, requires("render_agent") or ()):
        marker = requirement.marker
        always = marker is None or marker.evaluate({"extra": ""})
        if always != bool(extra) and (marker is None or marker.evaluate({"extra": extra})):
            yield requirement.name


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def package_checks() -> Iterator[Check]:
    """Check that each plug-in of an installed package can be imported."""
    for kind in registry.GROUPS:
        for name in registry.package_names(kind):
            answer = run_probe(__name__, "import_part", kind, name, seconds=IMPORT_SECONDS)
            remedy = "" if answer.explained else "fix or uninstall the package that provides it"
            if (detail := answer.error or answer.result["package"]) is None:  # render_agent_lab's
                continue
            yield Check("packages", f"{kind} {name}", answer.error is None, detail, remedy)


def import_part(kind: registry.Kind, name: str) -> dict[str, Any]:
    """Import a plug-in and return the package that provides it. Raises SetupError like `registry.load`."""
    registry.load(kind, name)
    return {"package": registry.package(kind, name)}
