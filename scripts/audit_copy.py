"""Asks a copy of OSV's advisories on this disk whether a pinned package has a known hole; needs no network.

    python scripts/audit_copy.py COPY.zip|FOLDER constraints.txt…

The copy is OSV's archive of its ecosystem PyPI (all.zip: a record a file, https://google.github.io/osv.dev/data/), or
the folder that it was unpacked into. A record of another ecosystem, or one that was withdrawn, does not count.
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

Pins = Mapping[str, Version]


def pins(files: Iterable[Path]) -> dict[str, Version]:
    """Return the pinned versions by the packages' canonical names."""
    lines = [
        line.split("#")[0].split()
        for file in files
        for line in file.read_text("utf-8").splitlines()
    ]
    parts = [words[0].split("==") for words in lines if words and "==" in words[0]]
    return {canonicalize_name(name): Version(version) for name, version in parts}


def records(copy: Path) -> Iterator[dict[str, Any]]:
    """Give the records of a copy. OSError or zipfile.BadZipFile where it cannot be read."""
    if copy.is_dir():
        for file in sorted(copy.rglob("*.json")):
            yield json.loads(file.read_bytes())
        return
    with zipfile.ZipFile(copy) as archive:
        for name in archive.namelist():
            if name.endswith(".json"):
                yield json.loads(archive.read(name))


def affects(entry: Mapping[str, Any], version: Version) -> bool:
    """Whether an `affected` of a record covers a version: it is listed, or lies in a range (OSV schema 1.6)."""
    if any(_same(listed, version) for listed in entry.get("versions", ())):
        return True
    return any(
        _within(part["events"], version)
        for part in entry.get("ranges", ())
        if part["type"] == "ECOSYSTEM"
    )


def _within(events: Iterable[Mapping[str, str]], version: Version) -> bool:
    """Whether the events of a range, in the order of their versions, leave a version affected."""
    inside = False
    told = [
        (_bound(text), kind) for event in events for kind, text in event.items() if kind != "limit"
    ]
    for bound, kind in sorted(told, key=lambda item: item[0]):
        if kind == "introduced" and version >= bound:
            inside = True
        elif (kind == "fixed" and version >= bound) or (
            kind == "last_affected" and version > bound
        ):
            inside = False
    return inside


def _bound(text: str) -> Version:
    return Version("0.dev0") if text == "0" else Version(text)


def _same(text: str, version: Version) -> bool:
    try:
        return Version(text) == version
    except InvalidVersion:
        return False


def holes(known: Iterable[Mapping[str, Any]], pinned: Pins) -> Iterator[str]:
    """Give a sentence a hole."""
    for record in known:
        for entry in () if record.get("withdrawn") else record.get("affected", ()):
            name = canonicalize_name(entry.get("package", {}).get("name", ""))
            if entry.get("package", {}).get("ecosystem") != "PyPI" or name not in pinned:
                continue
            if affects(entry, pinned[name]):
                names = ", ".join([record["id"], *record.get("aliases", ())])
                yield f"{name} {pinned[name]}: {names}: {record.get('summary', 'no summary')}"


def main(copy: Path, files: list[Path]) -> int:
    """Print the holes; return 1 where there is one, or the copy holds no record at all."""
    try:
        pinned, read = pins(files), list(records(copy))
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        sys.exit(f"audit: cannot read {copy}: {error}; fetch OSV's archive of PyPI again")
    found = sorted(set(holes(read, pinned)))
    sys.stdout.write("".join(f"{hole}\n" for hole in found))
    sys.stderr.write(
        f"audit: {len(found)} holes of {len(pinned)} pins by {len(read)} records in {copy}\n"
    )
    return 1 if found or not read else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), list(map(Path, sys.argv[2:]))))
