"""The report of a run as a site: pages made when they are asked for, and small figures that say what is new."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from render_agent.analysis.live.run import LiveRun
from render_agent.run.log.folder import RunFolder
from render_agent.system.threads import begun_pool
from render_agent.web.folder import KINDS, find_file
from render_agent.web.server import Page
from render_agent.web.templates import ASSETS

OWN = Path(__file__).parent / "templates"
"""Where the script and style lie that keep a page up to date."""

HEAD = '<link rel="stylesheet" href="/live/live.css"><script src="/live/live.js" defer></script></head>'

FOOT = '<p id="live" role="status" aria-live="polite" data-version="{version}" data-shown="{shown}"></p></body>'

Found = TypeVar("Found")


class LiveSite:
    """Serves the report of a run that may go on meanwhile.

    scratch: an empty folder for the pages that are made. All work is done in one thread, whoever asks.
    RunLogError where the run cannot be read.
    """

    def __init__(self, folder: RunFolder, scratch: Path) -> None:
        self.folder = folder
        self.scratch = scratch
        self._work = begun_pool(1, "live")
        try:
            self.run = self._do(lambda: LiveRun(folder, scratch))
        except BaseException:
            self.close()
            raise

    def get(self, path: str) -> Page | Path | None:
        """Return a page of the report, a picture of the run, or where it stands (`live/….json`)."""
        if path == "":
            return Page(b"", status=302, location="/report/index.html")
        top, _, rest = path.partition("/")
        if top == "views":
            return find_file(self.folder.path / "views", rest)
        if top == "live":
            return self._live(rest)
        return self._report(rest) if top == "report" else None

    def post(self, path: str, body: bytes) -> Page | None:
        """Nothing may be posted: it is looked at only."""
        return None

    def close(self) -> None:
        """Wait for what is being made."""
        self._work.shutdown()

    def _do(self, job: Callable[[], Found]) -> Found:
        return self._work.submit(job).result()

    def _live(self, path: str) -> Page | Path | None:
        if path in ("live.js", "live.css"):
            return find_file(OWN, path)
        if path == "index.json":
            return _json(self._do(self.run.standing))
        if match := re.fullmatch(r"questions/([^/]+)\.json", path):
            standing = self._do(lambda: self.run.standing_of(match[1]))
            return None if standing is None else _json(standing)
        return None

    def _report(self, path: str) -> Page | Path | None:
        if path.startswith("assets/"):
            return find_file(ASSETS, path.removeprefix("assets/"))
        if path.startswith("plans/"):
            return find_file(self.scratch, path)
        if match := re.fullmatch(r"questions/([^/]+)\.html", path):
            made = self._do(lambda: self.run.question(match[1]))
            return None if made is None else _page(*made)
        if path in ("index.html", "all.html", "questions.js") or path.startswith("plots/"):
            version = self._do(self.run.index)
            file = find_file(self.scratch, path)
            if file is not None and path == "index.html":
                return _page(file.read_text("utf-8"), version)
            return file
        return None


def _page(text: str, version: str) -> Page:
    """Return a page of the report with what keeps it up to date."""
    foot = FOOT.format(version=version, shown=version.partition("-")[0])
    text = text.replace("</head>", HEAD, 1)
    before, end, after = text.rpartition("</body>")
    return Page(f"{before}{foot if end else ''}{after}".encode("utf-8", "backslashreplace"))


def _json(data: object) -> Page:
    return Page(json.dumps(data).encode(), KINDS[".json"])
