"""The transports of the MCP server: standard input and output for one client, HTTP on this machine for several."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import Callable
from functools import partial
from threading import Event, Thread
from typing import Any, BinaryIO

import anyio
from mcp.server import Server
from mcp.server.runner import serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.routing import Route

from render_agent.util.web.checks import check_client
from render_agent.util.web.server import LocalServer

Streams = tuple[BinaryIO, BinaryIO]

CLOSING_SECONDS = 30  # for a turn in progress when the server is stopped


def take_streams() -> Streams:
    """Return private copies of standard input and output.

    From then on, standard input is empty and standard output is redirected to standard error, also in child processes,
    so that only the protocol uses the streams.
    """
    streams = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return streams


def serve_stdio(server: Server[Any], streams: Streams) -> None:
    """Serve one client until it disconnects or the process is interrupted."""
    over = Event()
    stops: list[Callable[[], object]] = []

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        read, write = (io.TextIOWrapper(stream, "utf-8", "replace") for stream in streams)
        try:
            async with stdio_server(anyio.wrap_file(read), anyio.wrap_file(write)) as messages:
                with anyio.CancelScope() as scope:
                    stops.append(partial(loop.call_soon_threadsafe, scope.cancel))
                    await serve_loop(server, *messages, lifespan_state=None)
                over.set()
        finally:
            over.set()

    # A daemon, because reading from the client cannot be interrupted.
    Thread(target=anyio.run, args=(serve,), name="mcp", daemon=True).start()
    try:
        over.wait()
    finally:
        if not over.is_set():
            for stop in stops:
                stop()
            over.wait(CLOSING_SECONDS)


def serve_http(server: Server[Any], port: int, on_start: Callable[[str, str], None]) -> None:
    """Serve any number of clients on this machine until the process is interrupted."""
    sessions = StreamableHTTPSessionManager(server, json_response=True)
    site = LocalServer(port, check_client)
    try:
        route = Route("/mcp", StreamableHTTPASGIApp(sessions))
        site.start([route], lifespan=lambda app: sessions.run())
        on_start(f"{site.address}mcp", site.token)
        site.wait()
    finally:
        site.close()
