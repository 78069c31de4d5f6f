"""Files of one folder, for a server: nothing outside it, and nothing but what a page consists of."""

from __future__ import annotations

from pathlib import Path

KINDS = {
    ".css": "text/css; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webp": "image/webp",
}
"""The content types of the files that are served, by suffix; others are not."""


def find_file(folder: Path, path: str) -> Path | None:
    """Return the file at `path` within `folder`; None where there is none that may be served.

    path: relative, its parts joined by "/". A part that is empty, begins with a dot or leads out of
    the folder, also by a link, is never followed.
    """
    parts = path.split("/")
    if any(not part or part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    if Path(parts[-1]).suffix not in KINDS:
        return None
    try:
        found = folder.joinpath(*parts).resolve(strict=True)
        within = found.is_relative_to(folder.resolve(strict=True))
        return found if within and found.is_file() else None
    except (OSError, RuntimeError):  # gone, a name that is too long, or links in a circle
        return None
