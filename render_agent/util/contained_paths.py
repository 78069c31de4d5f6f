"""Nothing of a run lies outside its folder: links that lead out are neither read nor written through.

A run folder may come from anybody. A link in it named `run.lock` could lead to a file of whoever goes on
with the run, and a picture's name in its log to one of theirs.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from render_agent.errors import RunLogError, os_errors
from render_agent.util.reasons import short_repr

PICTURE = r"\Aviews(?:/[A-Za-z0-9_-][A-Za-z0-9_.-]*)+\.png\Z"
"""What a picture may be called: a PNG below `views`, in plain letters."""

OWN = (
    "config.json", "questions.jsonl", "turns.jsonl", "run.log", "run.lock", "results.json",
    "results.csv", "views", "report",
)  # fmt: skip
"""What a run folder consists of."""


def refuse_ways_out(folder: Path) -> None:
    """Raise RunLogError where one of a run's own files leads out of its folder, or is no ordinary one."""
    for name in OWN:
        path = folder / name
        # What is not there yet, or is a link to what is not, leads nowhere.
        with os_errors(RunLogError, f"read {path}"), suppress(FileNotFoundError):
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                mode = _followed(folder, path)
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISCHR(mode)):
                raise RunLogError(f"{path} is neither a file nor a folder: remove it")


def check_inside(folder: Path, path: Path) -> None:
    """Raise RunLogError where a path within a folder is, or lies behind, a link that leads out of it."""
    if not _leads_inside(folder, path):
        raise RunLogError(
            f"{path} is a link that leads out of {folder}: put what it names in its place, or remove it"
        )


def refuse_pipe(path: Path) -> None:
    """Raise RunLogError where a path is a pipe, a socket or a device: whoever reads it may wait without end."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise RunLogError(f"{path} is neither a file nor a folder: remove it")


def is_picture(file: object) -> bool:
    """Whether a text may be the name of a run's picture: a PNG below `views`, in plain letters."""
    return isinstance(file, str) and re.search(PICTURE, file) is not None


def picture_path(folder: Path, file: str) -> Path:
    """Return where a picture of a run lies. RunLogError where that would be outside its folder."""
    if not is_picture(file):
        raise RunLogError(f"{short_repr(file)} is no picture of {folder}: its log was edited")
    path = folder / file
    check_inside(folder, path)
    refuse_pipe(path)
    return path


def _followed(folder: Path, path: Path) -> int:
    """Return the mode of what a link leads to, which lies in the folder or is a device."""
    mode = os.stat(path).st_mode if path.exists() else 0  # noqa: PTH116
    # A device such as /dev/full holds nothing that could be read or overwritten.
    if not stat.S_ISCHR(mode):
        check_inside(folder, path)
    return mode or stat.S_IFREG


def _leads_inside(folder: Path, path: Path) -> bool:
    try:
        return path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError):  # links in a circle
        return False
