"""Where an export is written: never over something, never into a run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from render_agent.errors import SetupError, UsageError


def check_place(to: Path, runs: Sequence[Path], *, folder: bool, force: bool) -> None:
    """Refuse a place that is taken or lies in a run folder. UsageError, which says so.

    folder: whether files are written into it; otherwise it is one file. force: whether files that
    are there may be replaced.
    """
    place = to.resolve()
    for run in runs:
        if place == run.resolve() or run.resolve() in place.parents:
            raise UsageError(f"--to {to} lies in the run {run}, which is only read: choose another")
    if to.is_dir() and not folder:
        raise UsageError(f"--to {to} is a folder: name a file")
    if to.exists() and folder and not to.is_dir():
        raise UsageError(f"--to {to} is a file: name a folder")
    taken = any(to.iterdir()) if folder and to.is_dir() else to.exists() and not folder
    if taken and not force:
        what = "is not empty" if folder else "is there already"
        raise UsageError(f"{to} {what}: give --force to replace what is there, or another --to")


@contextmanager
def replacing(file: Path) -> Iterator[Path]:
    """Give a path to write to that takes the place of `file` at the end, whole or not at all.

    Its name is the same. SetupError where the system does not let it be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent) as folder:
            draft = Path(folder, file.name)
            yield draft
            draft.replace(file)
    except OSError as error:
        reason = error.strerror or str(error)
        if error.filename and f".{file.name}." not in str(error.filename):
            reason = f"{error.filename}: {reason}"  # a picture or a scan that it is made of, say
        raise SetupError(f"cannot write {file}: {reason}") from error
