"""A small server for pages on this machine: 127.0.0.1 only, for its own pages only."""

from __future__ import annotations

import logging
import secrets
import socket
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Protocol

from render_agent.errors import RenderAgentError, SetupError
from render_agent.system.threads import start
from render_agent.web.checks import (
    Refused,
    body_length,
    check_origin,
    check_token,
    header_lines,
    plain_path,
)
from render_agent.web.folder import KINDS

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"

POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self';"
    " base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""What a page may load, where its site says nothing else: what this server has, nothing inline."""

PATIENCE = 20.0
"""Seconds that a connection may be silent in the middle of a request."""

MOST_PASSED_OVER = 10_000_000
"""Bytes of a refused post that are read, so that the refusal arrives."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is sent back.

    kind: its content type. policy: its content security policy. location: where else to look, on this
    server, with a status that says so.
    """

    body: bytes
    kind: str = KINDS[".html"]
    status: int = 200
    policy: str = POLICY
    location: str | None = None


class Site(Protocol):
    """What a server serves; called from several threads at once."""

    def get(self, path: str) -> Page | Path | None:
        """Return what lies at a path ("" is the first page), a file of KINDS, or None for nothing."""
        ...

    def post(self, path: str, body: bytes) -> Page | None:
        """Take what the page at this server posted; None where nothing may be posted."""
        ...


class LocalServer:
    """Serves a site until `close`.

    port: 0 takes any that is free. token: what a page must send along to post. SetupError where the
    port is taken.
    """

    def __init__(self, port: int = 0) -> None:
        self.token = secrets.token_urlsafe(24)
        try:
            self._server = _Server((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "there is no such port"
            raise SetupError(
                f"cannot serve a page on port {port} of {ADDRESS} ({reason}): name another by --port,"
                " or leave it out and take any that is free"
            ) from error
        self._server.token = self.token
        self._thread: Thread | None = None

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """Where the first page is."""
        return f"http://{ADDRESS}:{self.port}/"

    def start(self, site: Site) -> None:
        """Serve a site from now on, in threads of its own."""
        self._server.site = site
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="page"
        )
        start(self._thread)

    def close(self) -> None:
        """Stop, and wait for the threads."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    """Knows its open connections, so that silent ones can be ended."""

    daemon_threads = False
    block_on_close = True
    allow_reuse_address = True
    request_queue_size = 64
    site: Site
    token: str

    def __init__(self, *given: Any) -> None:
        self._open: set[socket.socket] = set()
        self._lock = Lock()
        super().__init__(*given)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        with self._lock:
            for connection in self._open:  # browsers open some in advance and say nothing
                try:
                    connection.shutdown(socket.SHUT_RD)
                except OSError:
                    logger.debug("a connection was gone already")
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        logger.debug("a connection ended early", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One request: checked, then handed to the site."""

    server: _Server
    timeout = PATIENCE
    server_version = "render_agent"
    sys_version = ""

    def do_GET(self) -> None:
        self._answer(posted=False)

    def do_HEAD(self) -> None:
        self._answer(posted=False)

    def do_POST(self) -> None:
        self._answer(posted=True)

    def _answer(self, *, posted: bool) -> None:
        try:
            page = self._page(posted=posted)
        except Refused as refused:
            logger.info("refused %s %r: %s", self.command, self.path, refused.words)
            self._send_words(refused.status, refused.words)
            if posted:
                self._pass_over_the_rest()
        except RenderAgentError as error:
            logger.error("could not serve %r: %s", self.path, error)
            self._send_words(500, "Something went wrong here; the log says what.")
        except Exception:
            # The boundary of a request: whatever a site raises, the page is told in one sentence
            # and the others are served on.
            logger.exception("could not serve %r", self.path)
            self._send_words(500, "Something went wrong here; the log says what.")
        else:
            self._send(page)

    def _page(self, *, posted: bool) -> Page:
        check_origin(self.headers, int(self.server.server_address[1]), posted=posted)
        path = plain_path(self.path)
        if posted:
            check_token(self.headers, self.server.token)
            length = body_length(self.headers)
            body = self.rfile.read(length)
            if len(body) < length:
                raise Refused(400, "What was posted is cut off.")
            found: Page | Path | None = self.server.site.post(path, body)
        else:
            found = self.server.site.get(path)
        if isinstance(found, Path):
            try:
                return Page(found.read_bytes(), KINDS[found.suffix])
            except OSError:
                found = None
        if found is None:
            raise Refused(404, "There is nothing here.")
        return found

    def _send(self, page: Page) -> None:
        self.send_response(page.status)
        for name, value in header_lines(page.policy).items():
            self.send_header(name, value)
        if page.location is not None:
            self.send_header("Location", page.location)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def _send_words(self, status: int, words: str) -> None:
        self._send(Page(f"{words}\n".encode(), "text/plain; charset=utf-8", status))

    def _pass_over_the_rest(self) -> None:
        """Read what was not wanted: closing before it is read would take the refusal back."""
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(1)
        left = MOST_PASSED_OVER
        while left > 0 and (read := self.rfile.read(min(left, 65_536))):
            left -= len(read)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Say what the standard library found wrong, in words that repeat nothing of the request."""
        self.close_connection = True
        if self.request_version == "HTTP/0.9":  # it was no request at all
            self.request_version = "HTTP/1.0"
        if not hasattr(self, "command") or self.command is None:
            self.command = ""
        self._send_words(code, f"{HTTPStatus(code).phrase}.")

    def log_message(self, format: str, *args: Any) -> None:
        logger.debug(format, *args)
