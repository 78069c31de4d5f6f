"""Request checks of the local server: rejects other sites' requests, and serves only whitelisted files."""

from __future__ import annotations

import hmac
import os
import re
from collections.abc import Sequence
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

MAX_POST_BYTES = 200_000  # largest POST body

PAGE_TOKEN = "The page's token is missing or out of date. Reload the page."
CLIENT_TOKEN = "The token in the URL or the Authorization header is missing or wrong."

TOKEN_HEADER = "X-Render-Agent-Token"

IMAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}

_PLAIN_PATH = re.compile(r"/|(/(?!\.{1,2}(/|$))[^/\\\x00-\x1f\x7f\ufffd]+)+")


def check_request(request: Request, port: int, token: str) -> None:
    """Raise HTTPException unless the request could come from one of this server's pages."""
    _check_origin(request, port)
    if not _PLAIN_PATH.fullmatch(request.scope["path"]):  # decoded, without its query
        raise HTTPException(400, "Invalid path.")
    if request.method == "POST":
        if "Origin" not in request.headers:
            raise HTTPException(403, "POST requests need an Origin header.")
        _check_token(request.headers.getlist(TOKEN_HEADER), token, PAGE_TOKEN)
        _check_body(request)


def check_client(request: Request, port: int, token: str) -> None:
    """Raise HTTPException unless the request comes from a program that knows the token, or from its page."""
    _check_origin(request, port)
    bearers = [
        value.split(" ", 1)[1]
        for value in request.headers.getlist("Authorization")
        if value[:7].lower() == "bearer "
    ]
    _check_token([*request.query_params.getlist("token"), *bearers], token, CLIENT_TOKEN)
    if request.method == "POST":
        _check_body(request)


def _check_origin(request: Request, port: int) -> None:
    """Reject requests addressed to another host name or sent by another site's page.

    The host check prevents DNS rebinding, where another site's name resolves to 127.0.0.1.
    """
    hosts = [f"127.0.0.1:{port}", f"localhost:{port}", *(["127.0.0.1", "localhost"] * (port == 80))]
    requested_hosts = [host.lower() for host in request.headers.getlist("Host")]
    if len(requested_hosts) != 1 or requested_hosts[0] not in hosts:
        raise HTTPException(421, "This server only answers for 127.0.0.1 and localhost.")
    origins = request.headers.getlist("Origin")
    if origins and origins != [f"http://{requested_hosts[0]}"]:
        raise HTTPException(403, "Cross-origin requests are not allowed.")


def _check_token(tokens: Sequence[str], token: str, message: str) -> None:
    if len(tokens) != 1 or not hmac.compare_digest(tokens[0].encode(), token.encode()):
        raise HTTPException(403, message)


def _check_body(request: Request) -> None:
    """Reject POST requests that have no length, are too large, or are not JSON."""
    headers = request.headers
    if "Transfer-Encoding" in headers or "Content-Length" not in headers:
        raise HTTPException(411, "POST requests need a Content-Length.")
    if int(headers["Content-Length"]) > MAX_POST_BYTES:
        raise HTTPException(413, f"The request body exceeds {MAX_POST_BYTES} bytes.")
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "The request body must be application/json.")


def image_response(content: bytes) -> Response:
    """Return a PNG response that browsers can only display as an image, in whatever context it is opened."""
    return Response(content, media_type="image/png", headers=IMAGE_HEADERS)


class PageFiles(StaticFiles):
    """Serves the files in a folder that have one of the given suffixes, such as ".png".

    Hidden files and links that lead out of the folder are not served. The folder may be created later.
    """

    def __init__(self, folder: Path, *suffixes: str) -> None:
        super().__init__(directory=folder, check_dir=False)
        self.suffixes = suffixes
        self.config_checked = True  # skip the check that the folder already exists

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Return the path and stat of a file to serve, or ("", None) if it must not be served."""
        if not path.endswith(self.suffixes) or any(part[:1] == "." for part in path.split("/")):
            return "", None
        try:
            return super().lookup_path(path)
        except OSError:  # a symlink loop or a name that is too long
            return "", None
