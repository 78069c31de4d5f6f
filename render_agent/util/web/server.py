"""A small server for pages on this machine: 127.0.0.1 only, for its own pages only."""

from __future__ import annotations

import logging
import secrets
import socket
from collections.abc import Sequence
from threading import Thread

import uvicorn
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Router
from starlette.types import ASGIApp, Receive, Scope, Send

from render_agent.errors import RenderAgentError, SetupError
from render_agent.util.web.checks import check_request

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"

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
"""What every reply carries: a page may load what this server has, nothing inline."""

CLOSING_SECONDS = 2
"""How long an unfinished request is waited for at the end."""


class LocalServer:
    """Serves the routes of a site until `close`.

    port: 0 takes any that is free. token: what a page must send along to post. SetupError where the
    port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        try:
            if port > 65_535:
                raise OSError(0, "there is no such port")
            self._socket = socket.create_server((ADDRESS, port), backlog=64)
        except OSError as error:
            raise SetupError(
                f"cannot serve a page on port {port} of {ADDRESS} ({error.strerror}): name another by"
                " --port, or leave it out and take any that is free"
            ) from error
        self.port = int(self._socket.getsockname()[1])
        self._server: uvicorn.Server | None = None

    @property
    def address(self) -> str:
        """Where the first page is."""
        return f"http://{ADDRESS}:{self.port}/"

    def start(self, routes: Sequence[BaseRoute]) -> None:
        """Serve a site from now on, in threads of its own; its functions are called from several."""
        self._server = uvicorn.Server(
            uvicorn.Config(
                _checked(Router(routes, redirect_slashes=False), self.port, self.token),
                loop="asyncio",
                http="h11",
                ws="none",
                lifespan="off",
                interface="asgi3",
                proxy_headers=False,
                headers=list(HEADERS.items()),
                access_log=False,
                log_config=None,
                log_level="critical",
                timeout_graceful_shutdown=CLOSING_SECONDS,
            )
        )
        self._thread = Thread(target=self._server.run, args=([self._socket],), name="page")
        self._thread.start()

    def wait(self) -> None:
        """Serve until the process is interrupted."""
        self._thread.join()

    def close(self) -> None:
        """Stop, and wait for the server's thread."""
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join()
            self._server = None
        self._socket.close()


def _checked(site: ASGIApp, port: int, token: str) -> ASGIApp:
    """Return an application that refuses foreign requests, and answers errors with one sentence."""

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        try:
            check_request(request, port, token)
            await site(scope, receive, send)
            return
        except HTTPException as refused:
            logger.info("refused %s %r: %s", request.method, scope["path"], refused.detail)
            response = PlainTextResponse(f"{refused.detail}\n", refused.status_code)
        except ClientDisconnect:
            logger.debug("a connection ended early")
            return
        except Exception as error:
            # The boundary of a request: whatever a site raises, the page is told in one sentence
            # and the others are served on.
            known = isinstance(error, RenderAgentError)
            logger.error("could not serve %r: %s", scope["path"], error, exc_info=not known)
            response = PlainTextResponse("Something went wrong here; the log says what.\n", 500)
        await response(scope, receive, send)

    return serve
