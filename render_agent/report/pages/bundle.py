"""Bundles a run as a folder or zip to share: report, images and results, without local paths and API keys."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

from render_agent.errors import RunLogError, UsageError
from render_agent.options import public_options
from render_agent.report.pages.build import REPORT
from render_agent.runs.read import RunData
from render_agent.util.atomic_files import atomic_write, json_bytes, make_folders, replacing_file
from render_agent.util.contained_paths import image_path
from render_agent.util.sanitize import make_public
from render_agent.util.web.templates import PACKAGE

START = b"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=report/index.html">
<title>render_agent: report</title></head><body><p><a href="report/index.html">Open the report</a></p></body></html>
"""


def bundle(run: RunData, pages: Path, to: Path) -> int:
    """Write the report, images, results and options of a run, without paths, servers and keys."""
    check_free(to)
    if to.suffix == ".zip":
        return _write_zip(run, pages, to)
    num_files, is_new = 0, not to.exists()
    try:
        for name, content in contents(run, pages):
            atomic_write(to / name, content, durable=False)
            num_files += 1
    except BaseException:  # do not leave a partial bundle, which would look complete
        shutil.rmtree(to, ignore_errors=True)
        if not is_new:
            to.mkdir(exist_ok=True)
        raise
    return num_files


def check_free(to: Path) -> None:
    """Check that a bundle can be written to `to`, before the report is built."""
    if to.suffix == ".zip":
        if to.exists() and not _is_bundle(to):
            raise UsageError(f"{to} exists and is not a bundle. Choose another name.")
    elif to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise UsageError(f"{to} already exists. Pass a new folder or a FILE.zip.")


def _is_bundle(file: Path) -> bool:
    """Return True if a file is a zip with the pages and the configuration of a run."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as packed:
        names = packed.namelist()
    folder = names[0].partition("/")[0] if names else ""
    return {f"{folder}/index.html", f"{folder}/config.json"} <= set(names)


def _write_zip(run: RunData, pages: Path, to: Path) -> int:
    make_folders(to.parent, durable=False)
    with replacing_file(to) as partial, zipfile.ZipFile(partial, "w") as file:
        for name, content in contents(run, pages):
            compression = zipfile.ZIP_STORED if name.endswith(".png") else zipfile.ZIP_DEFLATED
            file.writestr(f"{run.name}/{name}", content, compression)
        return len(file.namelist())


def contents(run: RunData, pages: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (name in the bundle, content) of every file."""
    folder = run.path
    private_paths = [folder.absolute(), folder.absolute().parent, Path.cwd(), PACKAGE.parent]

    def redact(content: bytes) -> bytes:
        text = content.decode("utf-8", "surrogateescape")
        return str(make_public(text, private_paths)).encode("utf-8", "surrogateescape")

    yield "index.html", START
    record = dict(run.record)
    record["config"] = public_options(record["config"])
    record["engine"] = {name: part for name, part in record["engine"].items() if name != "servers"}
    if run.sight_checks:
        names = ("finding", "codes", "replies")
        record["sight_checks"] = [{n: c[n] for n in names if n in c} for c in run.sight_checks]
    yield "config.json", json_bytes(make_public(record, private_paths))
    for name in ("results.json", "results.csv"):
        if (folder / name).is_file():
            yield name, redact((folder / name).read_bytes())
    for path in sorted(path for path in pages.rglob("*") if path.is_file()):
        name_in_report = path.relative_to(pages)
        content = path.read_bytes()
        is_text = name_in_report.parts[0] not in ("assets", "scenes3d") and path.suffix != ".png"
        yield f"{REPORT}/{name_in_report.as_posix()}", redact(content) if is_text else content
    for file in sorted({file for state in run.dialogues for turn in state.turns for file in turn.image_files}):  # fmt: skip
        try:
            yield file, image_path(folder, file).read_bytes()
        except (OSError, RunLogError):  # missing, or outside the run folder
            continue
