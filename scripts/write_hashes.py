"""Writes pins with their hashes, as pip's --require-hashes wants them, from pip's own reports, a Python each.

    python scripts/write_hashes.py 3.11.9.json 3.12.9.json … > hashes.txt
    python scripts/write_hashes.py --extras test,lint < hashes.txt

`--extras` gives those lines alone that some extras of setup.cfg need, by what hashes.txt says behind each pin; it
needs no package, as nothing is installed yet when it is used.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

TREE = Path(__file__).parents[1]

HEAD = """\
# The pins of constraints.txt with the SHA-256 of the files that pip takes on Linux x86_64, and the extras that need
# each. Written by `make hashes`. torch and torchvision are not here: which build is right depends on the machine, and
# they come from other indexes.
# python: {pythons}
"""

ALWAYS = "run"
"""The mark of what the program itself needs."""


def canonical(name: str) -> str:
    """Return a package's name as all its spellings are compared (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed() -> dict[str, set[str]]:
    """Return which extras need each package, by its canonical name, as this environment has them."""
    sys.path.insert(0, str(TREE))
    from scripts import licences

    uses: dict[str, set[str]] = {}
    for name, entries in licences.direct().items():
        for part, _ in entries:
            mark = ALWAYS if part == licences.ALWAYS else part
            for each in (name, *licences.needed([name])):
                uses.setdefault(each, set()).add(mark)
    return uses


def lines(reports: Iterable[Path]) -> Iterable[str]:
    """Give a line a pin: its hashes over all reports, and behind it the extras that need it."""
    hashes: dict[tuple[str, str], set[str]] = {}
    for report in reports:
        for entry in json.loads(report.read_text("utf-8"))["install"]:
            about = (entry["metadata"]["name"], entry["metadata"]["version"])
            hashes.setdefault(about, set()).add(
                entry["download_info"]["archive_info"]["hashes"]["sha256"]
            )
    uses = needed()
    for (name, version), known in sorted(hashes.items(), key=lambda item: item[0][0].lower()):
        marks = sorted(uses.get(canonical(name), ()))
        options = " ".join(f"--hash=sha256:{digest}" for digest in sorted(known))
        yield f"{name}=={version} {options}  # {' '.join(marks)}\n"


def chosen(text: str, extras: Sequence[str]) -> Iterable[str]:
    """Give the lines of hashes.txt that the program and these extras need."""
    for line in text.splitlines(keepends=True):
        pin, _, marks = line.rpartition("  # ")
        if pin and {ALWAYS, *extras} & set(marks.split()):
            yield line


if __name__ == "__main__":
    if sys.argv[1] == "--extras":
        sys.stdout.writelines(chosen(sys.stdin.read(), sys.argv[2].split(",")))
    else:
        reports = [Path(name) for name in sys.argv[1:]]
        pythons = " ".join(sorted(report.stem.rpartition(".")[0] for report in reports))
        sys.stdout.writelines([HEAD.format(pythons=pythons), *lines(reports)])
