"""Live report of a running run, rewritten every few seconds and served on localhost."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from starlette.responses import RedirectResponse
from starlette.routing import BaseRoute, Mount, Route

from render_agent.report.pages.build import REPORT, build_report
from render_agent.runs.read import RunData
from render_agent.util.web.checks import PageFiles
from render_agent.util.web.server import LocalServer

MIN_INTERVAL_SECONDS = 3.0  # minimum time between two updates
PAGE_SUFFIXES = (".html", ".js", ".css", ".svg", ".png")  # suffixes of the files of a report

WAIT_FACTOR = 3  # wait this many times the duration of the last update, to leave the CPU to the run


def report_routes(run: RunData) -> list[BaseRoute]:
    """Return the routes of a run's report and its images."""
    return [
        Route("/", lambda request: RedirectResponse(f"/{REPORT}/index.html", 302)),
        Mount(f"/{REPORT}", PageFiles(run.path / REPORT, *PAGE_SUFFIXES)),
        Mount("/views", PageFiles(run.path / "views", ".png")),
    ]


def watch_run(
    run: RunData,
    port: int,
    on_start: Callable[[str], None],  # called with the address once the first report is written
    *,
    processes: int | None = None,
    diagnose: bool = True,
) -> None:
    """Serve the report of a run and update it while the run is active, until interrupted (Ctrl-C)."""
    with closing(LocalServer(port)) as server:
        server.start(report_routes(run))
        has_started = False
        while True:
            start = time.monotonic()
            build_report(run, processes=processes, diagnose=diagnose)
            if not has_started:
                on_start(server.address)
                has_started = True
            if run.finished:
                server.wait()
            time.sleep(max(MIN_INTERVAL_SECONDS, WAIT_FACTOR * (time.monotonic() - start)))
            run.reload()
