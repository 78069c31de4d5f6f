"""Checks files before they are committed: their size, the newline at their end, and YAML.

    .venv/bin/python scripts/check_files.py FILE …

Prints a line for each fault; exit code 1 where there is one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from render_agent.text.safe_parse import parse_yaml

MOST_BYTES = 1_000_000
"""A larger file stays in everybody's clone for ever: think twice, then add it to LARGE."""

LARGE = ("scenes/", "render_agent/models/", "tests/upgrades/")
"""Folders whose files may be larger."""


def faults(path: Path) -> Iterator[str]:
    """Give what is wrong with a file."""
    if path.is_symlink() or not path.is_file():
        return
    if path.stat().st_size > MOST_BYTES and not path.as_posix().startswith(LARGE):
        yield f"has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}"
    data = path.read_bytes()
    if b"\0" in data[:8000]:
        return
    if data and (not data.endswith(b"\n") or data.endswith(b"\n\n")):
        yield "must end with one newline"
    if path.suffix in (".yml", ".yaml"):
        try:
            parse_yaml(data.decode("utf-8"))
        except ValueError as error:
            yield f"is not YAML: {' '.join(str(error).split())}"


def main() -> int:
    """Check the files named on the command line; return the exit code."""
    found = [f"{name}: {fault}" for name in sys.argv[1:] for fault in faults(Path(name))]
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
