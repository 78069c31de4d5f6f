"""A local HTTP server that listens on 127.0.0.1 and answers only its own pages, or programs that know its token."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Callable, Sequence
from threading import Event, Thread
from typing import Any

import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Lifespan, Receive, Scope, Send

from render_agent.errors import RenderAgentError, SetupError
from render_agent.util.interrupts import reraise
from render_agent.util.web.checks import check_request

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"

# Sent with every response. Pages may load resources only from this server, and no inline scripts or styles.
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self';"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "render_agent",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

# raises HTTPException if a request, to a port and with a token, must be rejected
Check = Callable[[Request, int, str], None]

CLOSING_SECONDS = 2  # time for open requests to finish at shutdown


class LocalServer:
    """Serves the routes of a site in a background thread until `close`; port 0 is any free one. Raises SetupError.

    `token` is the secret that requests must contain; pages need it only to POST.
    """

    def __init__(self, port: int = 0, check: Check = check_request) -> None:
        self.check = check
        self.token = secrets.token_urlsafe(24)
        try:
            if port > 65_535:
                raise OSError(0, "no such port")
            self._socket = socket.create_server((ADDRESS, port), backlog=64)
        except OSError as error:
            raise SetupError(
                f"cannot serve a page on {ADDRESS}, port {port} ({error.strerror}): choose another"
                " --port, or omit it to use any free port"
            ) from error
        self.port = int(self._socket.getsockname()[1])
        self._server: uvicorn.Server | None = None
        self._ended = Event()

    @property
    def address(self) -> str:
        """URL of the start page."""
        return f"http://{ADDRESS}:{self.port}/"

    def start(self, routes: Sequence[BaseRoute], lifespan: Lifespan[Any] | None = None) -> None:
        """Start serving in background threads; route handlers may run concurrently."""
        site = Router(routes, redirect_slashes=False, lifespan=lifespan)
        self._server = uvicorn.Server(
            uvicorn.Config(
                _add_checks(site, self.check, self.port, self.token),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off" if lifespan is None else "on",
                interface="asgi3",
                proxy_headers=False,
                headers=list(HEADERS.items()),
                access_log=False,
                log_config=None,
                log_level="critical",
                timeout_graceful_shutdown=CLOSING_SECONDS,
            )
        )
        self._thread = Thread(target=self._serve, args=(self._server,), name="page")
        self._thread.start()

    def _serve(self, server: uvicorn.Server) -> None:
        try:
            server.run([self._socket])
        finally:
            self._ended.set()

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        reraise()
        # An interrupted join would mark the running thread as ended (Python 3.11), so that `close` would not wait for it.
        self._ended.wait()

    def close(self) -> None:
        """Stop the server and wait for its thread."""
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join()
            self._server = None
        self._socket.close()


def _add_checks(site: ASGIApp, check: Check, port: int, token: str) -> ASGIApp:
    """Wrap an application: reject requests that fail the check, and answer errors with one sentence."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await site(scope, receive, send)
            return
        request = Request(scope)
        try:
            check(request, port, token)
            await site(scope, receive, send)
            return
        except HTTPException as refused:
            logger.info("refused %s %r: %s", request.method, scope["path"], refused.detail)
            response = PlainTextResponse(f"{refused.detail}\n", refused.status_code)
        except ClientDisconnect:
            logger.debug("client disconnected early")
            return
        except Exception as error:
            # Request boundary: an error in one handler must not affect other requests or leak details.
            is_expected = isinstance(error, RenderAgentError)
            logger.error("could not serve %r: %s", scope["path"], error, exc_info=not is_expected)
            response = PlainTextResponse("Internal error; see the log for details.\n", 500)
        await response(scope, receive, send)

    return serve
