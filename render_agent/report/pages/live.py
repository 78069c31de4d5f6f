"""Live reports on localhost: pages reload themselves, and a report is rewritten when a page asks for new turns."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from render_agent.errors import RenderAgentError
from render_agent.report.pages.build import REPORT, build_report
from render_agent.report.pages.index.runs_page import has_report, render_runs_page
from render_agent.runs.read import RunData, list_runs
from render_agent.util.interrupts import reraise
from render_agent.util.web.checks import PageFiles
from render_agent.util.web.server import LocalServer
from render_agent.util.web.templates import ASSETS

INDEX = f"{REPORT}/index.html"
PAGE_SUFFIXES = (".html", ".js", ".css", ".svg", ".png")  # suffixes of the files of a report

MIN_INTERVAL_SECONDS = 3.0  # minimum time between two updates of a report
WAIT_FACTOR = 3  # wait this many times the duration of the last update, to leave the CPU to the run


class LiveReports:
    """Writes reports in the thread that calls `serve`, one at a time, so that Ctrl-C also interrupts a report."""

    def __init__(self, processes: int | None = None, *, diagnose: bool = True) -> None:
        self._processes, self._diagnose = processes, diagnose
        self._requests: SimpleQueue[tuple[Path, Future[None]]] = SimpleQueue()
        self._runs: dict[Path, RunData] = {}  # kept, because they remember their diagnoses
        self._next_update: dict[Path, float] = {}

    async def update(self, path: Path) -> None:
        """Write the report of a run if it is older than the run. Raises RenderAgentError if that fails."""
        if is_stale(path):
            future: Future[None] = Future()
            self._requests.put((path, future))
            await asyncio.wrap_future(future)

    def serve(self) -> None:
        """Write the requested reports until interrupted."""
        while True:
            reraise()
            path, future = self._requests.get()
            if not future.set_running_or_notify_cancel():
                continue  # the page was closed
            try:
                if is_stale(path) and time.monotonic() >= self._next_update.get(path, 0.0):
                    self.write(path)
            except RenderAgentError as error:
                future.set_exception(error)
            else:
                future.set_result(None)

    def write(self, path: Path) -> None:
        """Write the report of a run."""
        started_at, start = time.time(), time.monotonic()
        if path in self._runs:
            self._runs[path].reload()
        else:
            self._runs[path] = RunData(path)
        page = build_report(self._runs[path], processes=self._processes, diagnose=self._diagnose)
        os.utime(page, (started_at, started_at))  # turns logged since then are not in it
        end = time.monotonic()
        self._next_update[path] = end + max(MIN_INTERVAL_SECONDS, WAIT_FACTOR * (end - start))


def is_stale(run: Path) -> bool:
    """Return True if a run has no report, or if its report is older than its log or results."""
    if not has_report(run):
        return True
    written_at = (run / INDEX).stat().st_mtime
    inputs = (run / name for name in ("turns.jsonl", "results.json"))
    return any(file.stat().st_mtime > written_at for file in inputs if file.is_file())


def live_routes(
    runs: Callable[[], Sequence[Path]],
    reports: LiveReports,
    start: str,  # path of the page to open
) -> list[BaseRoute]:
    """Return the routes of the reports of runs, and of their images."""

    def find(request: Request) -> Path:
        for path in runs():
            if path.name == request.path_params["run"]:
                return path
        raise HTTPException(404, "There is no such run.")

    async def report_file(request: Request) -> Response:
        run, file = find(request), request.path_params["file"]
        if file.endswith(".html"):
            try:
                await reports.update(run)
            except RenderAgentError as error:
                raise HTTPException(500, str(error)) from error
        return await PageFiles(run / REPORT, *PAGE_SUFFIXES).get_response(file, request.scope)

    async def image(request: Request) -> Response:
        files = PageFiles(find(request) / "views", ".png")
        return await files.get_response(request.path_params["file"], request.scope)

    return [
        Route("/", lambda request: RedirectResponse(start, 302)),
        Route(f"/{{run}}/{REPORT}/{{file:path}}", report_file),
        Route("/{run}/views/{file:path}", image),
    ]


def serve_runs(
    output: Path, reports: LiveReports, port: int, on_start: Callable[[str], None]
) -> None:
    """Serve a page over all runs of a folder, which links to their reports, until interrupted (Ctrl-C)."""
    render_runs_page(output)  # raises if there are none
    routes = [
        Route(f"/{INDEX}", lambda request: HTMLResponse(render_runs_page(output))),
        Mount(f"/{REPORT}/assets", PageFiles(ASSETS, ".js", ".css", ".svg")),
        *live_routes(lambda: list_runs(output), reports, f"/{INDEX}"),
    ]
    _serve(routes, reports, port, on_start)


def serve_run(run: Path, reports: LiveReports, port: int, on_start: Callable[[str], None]) -> None:
    """Serve the report of a run until interrupted (Ctrl-C)."""
    reports.write(run)
    _serve(
        live_routes(lambda: [run], reports, f"/{quote(run.name)}/{INDEX}"), reports, port, on_start
    )


def _serve(
    routes: Sequence[BaseRoute],
    reports: LiveReports,
    port: int,
    on_start: Callable[[str], None],  # called with the address
) -> None:
    with closing(LocalServer(port)) as server:
        server.start(routes)
        on_start(server.address)
        reports.serve()
