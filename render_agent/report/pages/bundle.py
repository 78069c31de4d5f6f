"""A run as one folder or zip that can be handed on: its report, its pictures, its results; no path, no key."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from render_agent.errors import RunLogError, UsageError
from render_agent.options import public_options
from render_agent.report.pages.build import REPORT
from render_agent.runs.read import RunData
from render_agent.util.contained_paths import picture_path
from render_agent.util.redact import public
from render_agent.util.web.templates import PACKAGE
from render_agent.util.whole_files import json_bytes, make_folders, whole, write_whole

START = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=report/index.html">
<title>render_agent: report</title></head><body><p><a href="report/index.html">The report</a></p></body></html>
"""


def bundle(run: RunData, pages: Path, to: Path) -> int:
    """Write a run and its report, which was built in `pages`, to a folder or a .zip; count files.

    It holds the pages, the pictures that turns name, the results, and the run's options without paths, servers and
    keys. Errors: as in `check_free`, and RunLogError if it cannot be written.
    """
    check_free(to)
    if to.suffix == ".zip":
        return _zipped(run, pages, to)
    number, new = 0, not to.exists()
    try:
        for name, content in contents(run, pages):
            write_whole(to / name, content, durable=False)
            number += 1
    except BaseException:  # half a bundle looks like a whole one
        shutil.rmtree(to, ignore_errors=True)
        if not new:
            to.mkdir(exist_ok=True)
        raise
    return number


def check_free(to: Path) -> None:
    """UsageError where something else lies where a bundle is to be; asked before a report is made."""
    if to.suffix == ".zip":
        if to.exists() and not zipfile.is_zipfile(to):
            raise UsageError(f"{to} is there and is no zip: name another file")
    elif to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} is there already: name a new folder, or a FILE.zip")


def _zipped(run: RunData, pages: Path, to: Path) -> int:
    make_folders(to.parent, durable=False)
    with whole(to) as partial, zipfile.ZipFile(partial, "w") as file:
        for name, content in contents(run, pages):
            packed = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
            file.writestr(f"{run.name}/{name}", content, packed)
        return len(file.namelist())


def contents(run: RunData, pages: Path) -> Iterator[tuple[str, bytes]]:
    """Give the files of a bundle by their names in it."""
    folder = run.path
    own = [folder.absolute(), folder.absolute().parent, Path.cwd(), PACKAGE.parent]

    def clean(content: bytes) -> bytes:
        text = content.decode("utf-8", "surrogateescape")
        return str(public(text, own)).encode("utf-8", "surrogateescape")

    yield "index.html", START
    record = dict(run.record)
    record["config"] = public_options(record["config"])
    record["engine"] = {name: part for name, part in record["engine"].items() if name != "servers"}
    yield "config.json", json_bytes(public(record, own))
    for name in ("results.json", "results.csv"):
        if (folder / name).is_file():
            yield name, clean((folder / name).read_bytes())
    for path in sorted(path for path in pages.rglob("*") if path.is_file()):
        place = path.relative_to(pages)
        content = path.read_bytes()
        is_text = place.parts[0] not in ("assets", "scenes3d") and path.suffix != ".png"
        yield f"{REPORT}/{place.as_posix()}", clean(content) if is_text else content
    for file in sorted({file for state in run.states for turn in state.turns for file in turn.drawn}):  # fmt: skip
        try:
            yield file, picture_path(folder, file).read_bytes()
        except (OSError, RunLogError):  # it is gone from the run, or was never its own
            continue
