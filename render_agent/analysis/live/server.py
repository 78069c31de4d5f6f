"""The report of a run as a site: pages made on demand, and small JSON answers that say what is new."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import (
    FileResponse,
    HTMLResponse,
    JSONResponse,
    RedirectResponse,
    Response,
)
from starlette.routing import BaseRoute, Mount, Route

from render_agent.analysis.live.run import LiveRun
from render_agent.analysis.report.data import page_of
from render_agent.observation.picture_store import safe_name
from render_agent.runs.log.folder import RunFolder
from render_agent.web.checks import PageFiles, picture_response
from render_agent.web.templates import ASSETS

TEMPLATES = Path(__file__).parent / "templates"
"""Where the script and style lie that keep a page up to date."""

HEAD = '<link rel="stylesheet" href="/live/live.css"><script src="/live/live.js" defer></script></head>'

FOOT = '<p id="live" role="status" aria-live="polite" data-version="{version}" data-shown="{shown}"></p></body>'

Result = TypeVar("Result")


class LiveSite:
    """Serves the report of a run that may go on meanwhile.

    scratch: an empty folder for the pages that are made. All work is done in one thread, whoever asks.
    finished_only: whether nothing is shown of scenes that are still asked about, nor of the run as a whole,
    as for whoever answers. RunLogError where the run cannot be read.
    """

    def __init__(self, folder: RunFolder, scratch: Path, *, finished_only: bool = False) -> None:
        self.folder = folder
        self.scratch = scratch
        self.finished_only = finished_only
        self._made = PageFiles(scratch, ".html", ".js", ".svg")
        self._work = ThreadPoolExecutor(1, "live")
        try:
            self.run = self._do(lambda: LiveRun(folder, scratch))
        except BaseException:
            self.close()
            raise

    def routes(self) -> list[BaseRoute]:
        """Return the pages of the report, the pictures that turns name, and where it stands (`live/….json`)."""
        return [
            Route("/", lambda request: RedirectResponse("/report/index.html", 302)),
            Route("/views/{path:path}", self._picture),
            Route("/report/views/{path:path}", self._picture),
            Route("/live/index.json", lambda request: JSONResponse(self._do(self.run.standing))),
            Route("/live/questions/{page}.json", self._standing),
            Mount("/live", PageFiles(TEMPLATES, ".css", ".js")),
            Mount("/report/assets", PageFiles(ASSETS, ".css", ".js", ".svg")),
            Mount("/report/plans", PageFiles(self.scratch / "plans", ".png")),
            Mount("/report/scenes3d", PageFiles(self.scratch / "scenes3d", ".js")),
            Route("/report/questions/{page}.html", self._question),
            Route("/report/{path:path}", self._index),
        ]

    def page_of(self, question_id: str) -> str | None:
        """Return the address of a question's page, None where it is not to be shown yet."""
        hidden = self.finished_only and self._do(lambda: self.run.active(safe_name(question_id)))
        return None if hidden else f"report/{page_of(question_id)}"

    def close(self) -> None:
        """Wait for what is being made."""
        self._work.shutdown()

    def _do(self, job: Callable[[], Result]) -> Result:
        return self._work.submit(job).result()

    def _picture(self, request: Request) -> Response:
        """Return a picture that a turn of the run names, and no other file of its folder."""
        content = self._do(lambda: self.run.picture(f"views/{request.path_params['path']}"))
        if content is None:
            raise HTTPException(404)
        return picture_response(content)

    def _standing(self, request: Request) -> Response:
        page = self._shown_page(request)
        standing = self._do(lambda: self.run.standing_of(page))
        if standing is None:
            raise HTTPException(404)
        return JSONResponse(standing)

    def _question(self, request: Request) -> Response:
        page = self._shown_page(request)
        made = self._do(lambda: self.run.question(page))
        if made is None:
            raise HTTPException(404)
        return _page(*made)

    def _shown_page(self, request: Request) -> str:
        """Return the name of the page that is asked for; HTTPException where it is not to be shown yet."""
        page = str(request.path_params["page"])
        if self.finished_only and self._do(lambda: self.run.active(page)):
            raise HTTPException(
                404, "A question about this place goes on: the page would tell of it."
            )
        return page

    def _index(self, request: Request) -> Response:
        """Return the index or a file that was made with it."""
        if self.finished_only:
            raise HTTPException(
                404, "The report tells the answers: it is there once all is answered."
            )
        version = self._do(self.run.index)
        file, status = self._made.lookup_path(request.path_params["path"])
        if status is None:
            raise HTTPException(404)
        if request.path_params["path"] == "index.html":
            return _page(Path(file).read_text("utf-8"), version)
        return FileResponse(file)


def _page(text: str, version: str) -> Response:
    """Return a page of the report with what keeps it up to date."""
    foot = FOOT.format(version=version, shown=version.partition("-")[0])
    text = text.replace("</head>", HEAD, 1)
    before, end, after = text.rpartition("</body>")
    whole = f"{before}{foot if end else ''}{after}"
    return HTMLResponse(whole.encode("utf-8", "backslashreplace"))
