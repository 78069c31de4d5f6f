"""Writes docs/licences.md: what the program is built on, and under which licence each of it comes.

    .venv/bin/python scripts/licences.py

The packages of setup.cfg, and all that these need in turn, as the environment that runs this has them.
"""

from __future__ import annotations

import re
from configparser import ConfigParser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

TREE = Path(__file__).parents[1]

PAGE = TREE / "docs" / "licences.md"

ALWAYS = "the program"

ELSEWHERE = {
    "gsplat": "Apache-2.0",
    "mlflow": "Apache-2.0",
    "open3d": "MIT",
    "trackio": "MIT",
    "vllm": "Apache-2.0",
    "vtk": "BSD-3-Clause",
    "types-pyyaml": "Apache-2.0",
}
"""The licences of packages that need not be here, as their publishers give them."""

HEAD = """# Licences

What the program is built on. Written by `make licences`, from what each package says of itself; the
versions are those that `constraints.txt` pins. render_agent itself is under the Apache License 2.0 (see
[LICENSE](../LICENSE)); none of these packages is part of it.

## Packages that setup.cfg names

| package | for | asked for | version | licence |
|---|---|---|---|---|
"""

COPYLEFT = """
Under a licence of the GPL's kind: {names}. Who only runs the program is not concerned; who hands on a
bundle of it with all its packages has to follow that licence for the whole.
"""

MORE = """
## What these need in turn

| package | version | licence |
|---|---|---|
"""


def direct() -> dict[str, list[tuple[str, Requirement]]]:
    """Return what setup.cfg asks for, by package: the extra, or ALWAYS, and the requirement."""
    read = ConfigParser()
    read.read(TREE / "setup.cfg", "utf-8")
    found: dict[str, list[tuple[str, Requirement]]] = {}
    parts = {ALWAYS: read["options"]["install_requires"], **read["options.extras_require"]}
    for part, text in parts.items():
        for line in text.splitlines():
            if line.strip() and not line.strip().startswith("#"):
                asked = Requirement(line.strip())
                found.setdefault(canonicalize_name(asked.name), []).append((part, asked))
    return found


def installed(name: str) -> Distribution | None:
    """Return a package as this environment has it, None where it has not."""
    try:
        return distribution(name)
    except PackageNotFoundError:
        return None


def needed(names: list[str]) -> dict[str, Distribution]:
    """Return the installed packages that some need in turn, by name, those left out."""
    found: dict[str, Distribution] = {}
    waiting = [(name, "") for name in names]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        here = installed(name)
        if (name, extra) in seen or here is None:
            continue
        seen.add((name, extra))
        found[name] = here
        for text in here.requires or ():
            asked = Requirement(text)
            if asked.marker is None or asked.marker.evaluate({"extra": extra}):
                inner = canonicalize_name(asked.name)
                waiting += [(inner, ""), *((inner, part) for part in asked.extras)]
    return {name: here for name, here in sorted(found.items()) if name not in names}


def licence(name: str, here: Distribution | None) -> str:
    """Return under which licence a package says that it comes, in a few words."""
    if here is None:
        return ELSEWHERE[name]
    said = here.metadata
    if expression := said.get("License-Expression"):
        return str(expression)
    classes = [
        entry for entry in said.get_all("Classifier") or () if entry.startswith("License ::")
    ]
    named = [entry.rpartition(" :: ")[2] for entry in classes if entry != "License :: OSI Approved"]
    words = str(said.get("License") or "").strip()
    short = words if words and len(words) <= 60 and "\n" not in words else ""
    return ", ".join(dict.fromkeys(named)) or short or ELSEWHERE.get(name) or _from_file(here)


def _from_file(here: Distribution) -> str:
    """Return the name of a licence whose text alone comes with a package."""
    texts = [
        Path(str(here.locate_file(file))).read_text("utf-8", "replace")
        for file in here.files or ()
        if re.search(r"(?i)licen[sc]e|copying", file.name) and file.suffix in ("", ".txt", ".md")
    ]
    told = str(here.metadata.get("License") or "") + "".join(texts)
    for words, name in (
        ("Apache License", "Apache-2.0"),
        ("Mozilla Public License", "MPL-2.0"),
        ("Permission is hereby granted, free of charge", "MIT"),
        ("Redistribution and use in source and binary forms", "BSD"),
    ):
        if words in told:
            return name
    return "not said"


def page() -> str:
    """Return the whole page."""
    asked = direct()
    lines = [HEAD]
    copyleft = []
    for name, entries in sorted(asked.items()):
        here = installed(name)
        parts = ", ".join(dict.fromkeys(part for part, _ in entries))
        wanted = ", ".join(dict.fromkeys(str(entry.specifier) or "any" for _, entry in entries))
        version = "–" if here is None else here.version.partition("+")[0]
        said = licence(name, here)
        copyleft += [name] if re.search(r"GPL|General Public", said) else []
        lines.append(f"| {name} | {parts} | {wanted} | {version} | {said} |\n")
    if copyleft:
        lines.append(COPYLEFT.format(names=", ".join(copyleft)))
    lines.append(MORE)
    for name, here in needed(list(asked)).items():
        version = here.version.partition("+")[0]
        lines.append(f"| {name} | {version} | {licence(name, here)} |\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
