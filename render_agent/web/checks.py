"""What a local server asks of a request before it looks at anything else in it."""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from email.message import Message
from urllib.parse import unquote

LONGEST_PATH = 2_000
"""Characters of an address."""

MOST_BYTES = 200_000
"""Of what is posted."""

TOKEN_HEADER = "X-Render-Agent-Token"

_ENCODED_SEPARATOR = re.compile("%(?:2f|5c|00)", re.IGNORECASE)
_CONTROL = re.compile("[\x00-\x1f\x7f\\\\]")


class Refused(Exception):
    """A request that is not answered: the status of the reply, and the sentence that it says."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.words = words


def check_origin(headers: Message, port: int, *, posted: bool) -> None:
    """Refuse what was not asked of this machine by name, or was asked by another site's page.

    A foreign name for 127.0.0.1 is how a page elsewhere would read what is served here. posted: then
    a page must say that it is one of ours.
    """
    hosts = {f"127.0.0.1:{port}", f"localhost:{port}"} | (
        {"127.0.0.1", "localhost"} if port == 80 else set()
    )
    asked = headers.get_all("Host") or []
    if len(asked) != 1 or asked[0].lower() not in hosts:
        raise Refused(421, "This server answers to 127.0.0.1 and localhost only.")
    origins = headers.get_all("Origin") or []
    if origins and origins != [f"http://{asked[0].lower()}"]:
        raise Refused(403, "Pages of other sites are not answered.")
    if posted and not origins:
        raise Refused(403, "Only the page of this server may post.")


def check_token(headers: Message, token: str) -> None:
    """Refuse what does not carry the token that the page was given."""
    given = headers.get_all(TOKEN_HEADER) or []
    if len(given) != 1 or not hmac.compare_digest(given[0].encode(), token.encode()):
        raise Refused(403, "The token of the page is missing or old: load the page again.")


def body_length(headers: Message) -> int:
    """Return how many bytes are posted. Refused where that is not said, or too much."""
    if headers.get("Transfer-Encoding") is not None:
        raise Refused(411, "The length of what is posted must be given.")
    given = headers.get_all("Content-Length") or []
    if len(given) != 1 or not re.fullmatch("[0-9]{1,12}", given[0]):
        raise Refused(411, "The length of what is posted must be given.")
    if (length := int(given[0])) > MOST_BYTES:
        raise Refused(413, f"At most {MOST_BYTES} bytes may be posted.")
    if headers.get_content_type() != "application/json":
        raise Refused(415, "What is posted must be application/json.")
    return length


def plain_path(target: str) -> str:
    """Return the path that a request line asks for, decoded, without its first "/" and its query.

    Refused where it could mean another file than it seems to: separators in disguise, parts such as
    "..", NUL, or text that is no UTF-8.
    """
    path = target.partition("#")[0].partition("?")[0]
    if len(target) > LONGEST_PATH:
        raise Refused(414, "The address is too long.")
    if not path.startswith("/") or _ENCODED_SEPARATOR.search(path):
        raise Refused(400, "That is no address here.")
    try:
        decoded = unquote(path[1:], errors="strict")
    except UnicodeDecodeError:
        raise Refused(400, "That is no address here.") from None
    if _CONTROL.search(decoded):
        raise Refused(400, "That is no address here.")
    if decoded and any(part in ("", ".", "..") for part in decoded.split("/")):
        raise Refused(400, "That is no address here.")
    return decoded


def header_lines(policy: str) -> Mapping[str, str]:
    """Return the headers that every reply carries. policy: the content security policy."""
    return {
        "Cache-Control": "no-store",
        "Content-Security-Policy": policy,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    }
