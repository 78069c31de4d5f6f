"""The form of a run folder, by its number: which are read, and what to do about the others."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from render_agent.errors import RunLogError

FORMAT = 1
"""The number of the form that is written; `config.json` holds it.

Raised whenever an earlier version could not read a folder, or would take it for something else; what
that version wrote is kept in tests/upgrades/formats, and read on.
"""

READ = (FORMAT,)
"""The numbers of the forms that are read."""


def check_format(path: Path, record: Any) -> None:
    """Raise RunLogError where a run folder has a form that this version does not read.

    record: what its `config.json` holds.
    """
    told = record if isinstance(record, dict) else {}
    known = told.get("format")
    if type(known) is int and known in READ:
        return
    if type(known) is not int or known < 1:
        raise RunLogError(
            f"{path} has format {known!r:.40}, which no version wrote: restore its config.json"
        )
    writer = f"render_agent {told.get('program', 'of another version')!s:.40}"
    own = f"this is render_agent {version('render_agent')}, which reads format"
    if known > FORMAT:
        raise RunLogError(
            f"{path} has format {known}, written by {writer}, and {own} {FORMAT} at the most: install"
            " that version, or a newer one"
        )
    raise RunLogError(
        f"{path} has format {known}, written by {writer}, and {own} {min(READ)} on: use the version"
        " that wrote it"
    )
