"""The report of a run in progress: rewritten every few seconds, and served on this machine."""

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

LEAST_SECONDS = 3.0  # between two reports

IDLE_SHARE = (
    3  # after a report it waits so many times as long as that took, so that the run gets the cores
)


def routes(run: RunData) -> list[BaseRoute]:
    """Return the pages of a run's report and its pictures."""
    return [
        Route("/", lambda request: RedirectResponse(f"/{REPORT}/index.html", 302)),
        Mount(f"/{REPORT}", PageFiles(run.path / REPORT, ".html", ".js", ".css", ".svg", ".png")),
        Mount("/views", PageFiles(run.path / "views", ".png")),
    ]


def watch(
    run: RunData,
    port: int,
    on_start: Callable[[str], None],
    *,
    processes: int | None = None,
    diagnose: bool = True,
) -> None:
    """Serve the report of a run and rewrite it while the run goes on. Returns only by an exception, as of Ctrl-C.

    Args:
        port: 0 for any that is free.
        on_start: Called with the address once the first report is written.
        processes: As for `build`.
        diagnose: As for `build`.
    """
    with closing(LocalServer(port)) as server:
        server.start(routes(run))
        started = False
        while True:
            began = time.monotonic()
            build_report(run, processes=processes, diagnose=diagnose)
            if not started:
                on_start(server.address)
                started = True
            if run.finished:
                server.wait()
            time.sleep(max(LEAST_SECONDS, IDLE_SHARE * (time.monotonic() - began)))
            run.reload()
