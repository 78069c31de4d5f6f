"""Files of one folder, for a server: nothing outside it, and nothing but what a page consists of."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.staticfiles import StaticFiles


class PageFiles(StaticFiles):
    """Serves the files of a folder that have one of some suffixes (".png", …).

    Hidden files are not served, nor what a link outside the folder leads to. The folder need not be
    there.
    """

    def __init__(self, folder: Path, *suffixes: str) -> None:
        super().__init__(directory=folder, check_dir=False)
        self.suffixes = suffixes
        self.config_checked = True  # a folder that is not there yet has no files

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Return the file at a relative path and its state, None where none may be served."""
        if not path.endswith(self.suffixes) or any(part[:1] == "." for part in path.split("/")):
            return "", None
        try:
            return super().lookup_path(path)
        except OSError:  # links in a circle, a name that is too long
            return "", None
