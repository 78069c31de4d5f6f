"""Keeps file access inside the run folder: links that lead out of it are neither read nor written through.

A run folder may come from an untrusted source. Its `run.lock` could be a link to a file of the user who resumes the
run, and so could an image name in its log.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from render_agent.errors import RunLogError, os_errors
from render_agent.util.reasons import short_repr

IMAGE_NAME = r"\Aviews(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+\.png\Z"  # PNGs below `views`

# Files and folders in a run folder.
RUN_FILES = (
    "config.json", "questions.jsonl", "turns.jsonl", "batch_jobs.jsonl", "run.log", "run.lock",
    "results.json", "results.csv", "views", "report",
)  # fmt: skip


def check_links(folder: Path) -> None:
    """Raise RunLogError if a file of the run leads out of its folder or is not an ordinary file."""
    for name in RUN_FILES:
        path = folder / name
        # a missing file or a dangling link is harmless
        with os_errors(RunLogError, f"read {path}"), suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                mode = _follow_link(folder, path)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode)):
                raise RunLogError(f"{path} is neither a file nor a folder; remove it")


def check_inside(folder: Path, path: Path) -> None:
    """Raise RunLogError if a path in a folder is, or goes through, a link that leads out of it."""
    if not _leads_inside(folder, path):
        raise RunLogError(
            f"{path} is a link that leads out of {folder}; replace it with its target, or remove it"
        )


def check_not_pipe(path: Path) -> None:
    """Raise RunLogError if a path is a pipe, a socket or a device, because reading it could block forever."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise RunLogError(f"{path} is neither a file nor a folder; remove it")


def is_image_name(file: object) -> bool:
    """Return True if `file` is a valid image name: a PNG below `views` with a plain name."""
    return isinstance(file, str) and re.search(IMAGE_NAME, file) is not None


def image_path(folder: Path, file: str) -> Path:
    """Return the path of an image of a run. Raises RunLogError if it is outside the run folder."""
    if not is_image_name(file):
        raise RunLogError(f"{short_repr(file)} is not an image of {folder}; its log was edited")
    path = folder / file
    check_inside(folder, path)
    check_not_pipe(path)
    return path


def _follow_link(folder: Path, path: Path) -> int:
    """Return the mode of a link's target, which must be inside the folder or a device."""
    mode = os.stat(path).st_mode if path.exists() else 0  # noqa: PTH116
    # a device such as /dev/full contains nothing to read or overwrite
    if not stat.S_ISCHR(mode):
        check_inside(folder, path)
    return mode or stat.S_IFREG


def _leads_inside(folder: Path, path: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # a symlink loop
        return False
