"""What a local server refuses: requests that its own pages do not make, and files that are no part of a page."""

from __future__ import annotations

import hmac
import os
import re
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

MOST_BYTES = 200_000
"""Of what is posted."""

TOKEN_HEADER = "X-Render-Agent-Token"

PICTURE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
}

_PLAIN_PATH = re.compile(r"/|(/(?!\.{1,2}(/|$))[^/\\\x00-\x1f\x7f\ufffd]+)+")


def check_request(request: Request, port: int, token: str) -> None:
    """Raise HTTPException where a request is not one that a page of this server makes."""
    _check_origin(request, port)
    if not _PLAIN_PATH.fullmatch(request.scope["path"]):  # decoded, without its query
        raise HTTPException(400, "That is no address here.")
    if request.method == "POST":
        _check_post(request, token)


def _check_origin(request: Request, port: int) -> None:
    """Refuse what was not asked of this machine by name, or was asked by another site's page.

    A foreign name for 127.0.0.1 is how a page elsewhere would read what is served here.
    """
    hosts = [f"127.0.0.1:{port}", f"localhost:{port}", *(["127.0.0.1", "localhost"] * (port == 80))]
    requested_hosts = [host.lower() for host in request.headers.getlist("Host")]
    if len(requested_hosts) != 1 or requested_hosts[0] not in hosts:
        raise HTTPException(421, "This server answers to 127.0.0.1 and localhost only.")
    origins = request.headers.getlist("Origin")
    if origins and origins != [f"http://{requested_hosts[0]}"]:
        raise HTTPException(403, "Pages of other sites are not answered.")
    if request.method == "POST" and not origins:
        raise HTTPException(403, "Only the page of this server may post.")


def _check_post(request: Request, token: str) -> None:
    """Refuse what does not carry the token that the page was given, is too much or is no JSON."""
    headers = request.headers
    tokens = headers.getlist(TOKEN_HEADER)
    if len(tokens) != 1 or not hmac.compare_digest(tokens[0].encode(), token.encode()):
        raise HTTPException(403, "The token of the page is missing or old: load the page again.")
    if "Transfer-Encoding" in headers or "Content-Length" not in headers:
        raise HTTPException(411, "The length of what is posted must be given.")
    if int(headers["Content-Length"]) > MOST_BYTES:
        raise HTTPException(413, f"At most {MOST_BYTES} bytes may be posted.")
    if headers.get("Content-Type", "").partition(";")[0].strip().lower() != "application/json":
        raise HTTPException(415, "What is posted must be application/json.")


def picture_response(content: bytes) -> Response:
    """Return a PNG that a browser shows as a picture and as nothing else, wherever it is opened."""
    return Response(content, media_type="image/png", headers=PICTURE_HEADERS)


class PageFiles(StaticFiles):
    """Serves the files of a folder that have one of some suffixes (".png", …).

    Hidden files are not served, nor what a link outside the folder leads to. The folder need not be
    there.
    """

    def __init__(self, folder: Path, *suffixes: str) -> None:
        super().__init__(directory=folder, check_dir=False)
        self.suffixes = suffixes
        self.config_checked = True  # a folder that is not there yet has no files

    def lookup_path(self, path: str) -> tuple[str, os.stat_result | None]:
        """Return the file at a relative path and its state, None where none may be served."""
        if not path.endswith(self.suffixes) or any(part[:1] == "." for part in path.split("/")):
            return "", None
        try:
            return super().lookup_path(path)
        except OSError:  # links in a circle, a name that is too long
            return "", None
