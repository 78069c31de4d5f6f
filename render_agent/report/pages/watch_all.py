"""Live page over all runs of a folder. The report of a run is written when it is opened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from render_agent.errors import RenderAgentError
from render_agent.report.pages.build import REPORT, build_report
from render_agent.report.pages.index.runs_page import has_report, page_values, render_runs_page
from render_agent.report.pages.watch import MIN_INTERVAL_SECONDS, PAGE_SUFFIXES, WAIT_FACTOR
from render_agent.runs.read import RunData, list_runs
from render_agent.util.web.checks import PageFiles
from render_agent.util.web.server import LocalServer
from render_agent.util.web.templates import ASSETS

INDEX = "index.html"


class ReportQueue:
    """Writes reports in the thread that calls `serve`, one at a time, so that Ctrl-C also interrupts a report."""

    def __init__(self, processes: int | None, *, diagnose: bool) -> None:
        self._processes, self._diagnose = processes, diagnose
        self._requests: SimpleQueue[tuple[Path, Future[None]]] = SimpleQueue()
        self._next_update: dict[Path, float] = {}

    async def update(self, run: Path) -> None:
        """Write the report of a run if it is older than the run. Raises RenderAgentError if that fails."""
        future: Future[None] = Future()
        self._requests.put((run, future))
        await asyncio.wrap_future(future)

    def serve(self) -> None:
        """Write the requested reports until interrupted."""
        while True:
            run, future = self._requests.get()
            if not future.set_running_or_notify_cancel():
                continue  # the page was closed
            try:
                self._update(run)
            except RenderAgentError as error:
                future.set_exception(error)
            else:
                future.set_result(None)

    def _update(self, run: Path) -> None:
        if not is_stale(run) or time.monotonic() < self._next_update.get(run, 0.0):
            return
        start = time.monotonic()
        build_report(RunData(run), processes=self._processes, diagnose=self._diagnose)
        took = time.monotonic() - start
        wait = max(MIN_INTERVAL_SECONDS, WAIT_FACTOR * took)
        self._next_update[run] = time.monotonic() + wait


def is_stale(run: Path) -> bool:
    """Return True if a run has no report, or if its report is older than its log or results."""
    if not has_report(run):
        return True
    written_at = (run / REPORT / INDEX).stat().st_mtime
    inputs = (run / name for name in ("turns.jsonl", "results.json"))
    return any(file.stat().st_mtime > written_at for file in inputs if file.is_file())


def overview_routes(output: Path, reports: ReportQueue) -> list[BaseRoute]:
    """Return the routes of the page over all runs, their reports and images."""

    def runs_page(request: Request) -> Response:
        return HTMLResponse(render_runs_page(output))

    async def report_file(request: Request) -> Response:
        run, file = _run(output, request), request.path_params["file"]
        if file == INDEX:
            try:
                await reports.update(run)
            except RenderAgentError as error:
                raise HTTPException(500, str(error)) from error
        return await PageFiles(run / REPORT, *PAGE_SUFFIXES).get_response(file, request.scope)

    async def image(request: Request) -> Response:
        files = PageFiles(_run(output, request) / "views", ".png")
        return await files.get_response(request.path_params["file"], request.scope)

    return [
        Route("/", lambda request: RedirectResponse(f"/{REPORT}/{INDEX}", 302)),
        Route(f"/{REPORT}/{INDEX}", runs_page),
        Mount(f"/{REPORT}/assets", PageFiles(ASSETS, ".js", ".css", ".svg")),
        Route(f"/{{run}}/{REPORT}/{{file:path}}", report_file),
        Route("/{run}/views/{file:path}", image),
    ]


def _run(output: Path, request: Request) -> Path:
    """Return the run named in a request. Raises HTTPException if there is none."""
    name = request.path_params["run"]
    for path in list_runs(output):
        if path.name == name:
            return path
    raise HTTPException(404, "There is no such run.")


def watch_all(
    output: Path,
    port: int,
    on_start: Callable[[str], None],
    *,
    processes: int | None = None,
    diagnose: bool = True,
) -> None:
    """Serve the page over all runs of a folder until interrupted (Ctrl-C)."""
    page_values(output, lambda run: True)
    reports = ReportQueue(processes, diagnose=diagnose)
    with closing(LocalServer(port)) as server:
        server.start(overview_routes(output, reports))
        on_start(server.address)
        reports.serve()
