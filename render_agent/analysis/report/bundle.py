"""A run as one folder or zip that can be handed on: its report, its pictures, its results; no path, no key."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path
from typing import Any

from render_agent.analysis.report.build import REPORT
from render_agent.analysis.report.data import ReportData
from render_agent.errors import UsageError
from render_agent.system.whole_files import json_bytes, make_folders, write_whole, writing
from render_agent.text.redact import without_keys
from render_agent.web.templates import PACKAGE

PAGES = (".html", ".js", ".css", ".svg", ".png", ".txt")
"""The endings of what is taken of a report; what it keeps for itself has others."""

ABSOLUTE = re.compile(
    r"(?<![\w.<:/*~%-])(?:file://)?(?:/[\w.@+-]+)+/([\w.@+-]+)|[A-Za-z]:\\(?:[\w.@+-]+\\)*([\w.@+-]+)"
)
"""An absolute path of some machine in a text: at least one folder and a name."""

LEFT_OUT = ("base_url", "engine_option", "ray")
"""Options that name a server, or hold whatever its maker wanted."""

START = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=report/index.html">
<title>render_agent: report</title></head><body><p><a href="report/index.html">The report</a></p></body></html>
"""


def bundle(report: ReportData, pages: Path, to: Path) -> int:
    """Write a run and its report, which lies in `pages`, to a folder or, by its ending, a .zip; count files.

    In it are the pages with the pictures that turns name, the scenes in 3D, the results, and the run's options
    without paths, servers and keys. No page points out of it. UsageError where something else lies there,
    RunLogError where it cannot be written.
    """
    if to.suffix == ".zip":
        if to.exists() and not zipfile.is_zipfile(to):
            raise UsageError(f"{to} is there and is no zip: name another file")
        return _zipped(report, pages, to)
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} is there already: name a new folder, or a FILE.zip")
    number = 0
    for name, content in contents(report, pages):
        write_whole(to / name, content, durable=False)
        number += 1
    return number


def _zipped(report: ReportData, pages: Path, to: Path) -> int:
    partial = to.with_name(f".{to.name}.part")
    make_folders(to.parent, durable=False)
    with writing(to):
        with zipfile.ZipFile(partial, "w") as file:
            for name, content in contents(report, pages):
                packed = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
                file.writestr(f"{report.name}/{name}", content, packed)
            number = len(file.namelist())
        partial.replace(to)
    return number


def contents(report: ReportData, pages: Path) -> Iterator[tuple[str, bytes]]:
    """Give the files of a bundle by their names in it."""
    folder = report.folder.path
    own = [folder.absolute(), folder.absolute().parent, Path.cwd(), PACKAGE.parent]

    def clean(content: bytes) -> bytes:
        text = content.decode("utf-8", "surrogateescape")
        return scrubbed(text, own).encode("utf-8", "surrogateescape")

    yield "index.html", START
    yield "config.json", json_bytes(without_paths(report.record, own))
    for name in ("results.json", "results.csv"):
        if (folder / name).is_file():
            yield name, clean((folder / name).read_bytes())
    drawn = {file for state in report.states for turn in state.turns for file in turn.drawn}
    for path in sorted(pages.rglob("*")):
        if path.is_file() and path.suffix in PAGES and not path.name.startswith("."):
            place = path.relative_to(pages)
            if place.parts[0] == "views" and place.as_posix() not in drawn:
                continue
            content = path.read_bytes()
            told = place.parts[0] not in ("assets", "scenes3d") and path.suffix != ".png"
            yield f"{REPORT}/{place.as_posix()}", clean(content) if told else content


def scrubbed(text: str, folders: Iterable[Path] = ()) -> str:
    """Return a text without keys, and with the last name alone of each absolute path in it.

    folders: of this machine, which are found whatever signs are in their names.
    """
    for folder in sorted(
        {str(folder) for folder in (*folders, Path.home())}, key=len, reverse=True
    ):
        for written in {folder, escape(folder)} - {"/"}:
            name = "~" if folder == str(Path.home()) else Path(folder).name
            text = text.replace(written + "/", "").replace(written, name)
    return ABSOLUTE.sub(lambda found: found[1] or found[2], without_keys(text))


def without_paths(record: Mapping[str, Any], folders: Iterable[Path] = ()) -> Any:
    """Return what `config.json` holds as others may read it; folders: as in `scrubbed`."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, str):
            return scrubbed(value, folders)
        if isinstance(value, Mapping):
            kept = {name: part for name, part in value.items() if name not in LEFT_OUT}
            return {scrubbed(str(name), folders): cleaned(part) for name, part in kept.items()}
        return list(map(cleaned, value)) if isinstance(value, list | tuple) else value

    return cleaned(record)
