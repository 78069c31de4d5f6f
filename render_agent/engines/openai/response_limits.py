"""What a server may answer with: plain bytes, and not too many of them."""

from __future__ import annotations

from typing import Any

MAX_RESPONSE_BYTES = 64 << 20

PLAIN = {"accept-encoding": "identity"}
"""The header that asks for responses that are not packed: a few packed bytes may stand for any number."""


class ResponseRefused(Exception):
    """A response that is not read to its end, and why."""


class BoundedBody:
    """The body of an httpx response, read before the client does; ResponseRefused where it is packed or too long."""

    def __init__(self, response: Any) -> None:
        packed = response.headers.get("content-encoding", "identity").strip().lower()
        if packed not in ("", "identity"):
            raise ResponseRefused(f"its answer is packed ({packed[:40]!r}), which nobody asked for")
        self._response = response
        self._body = bytearray()

    def add(self, part: bytes) -> None:
        """Take in some bytes."""
        if len(self._body) + len(part) > MAX_RESPONSE_BYTES:
            raise ResponseRefused(f"its answer has more than {MAX_RESPONSE_BYTES:,} bytes")
        self._body += part

    def hand_over(self) -> None:
        """Put the body where the client looks before it reads."""
        self._response._content = bytes(self._body)
        # as JSON is; the server could name what is no encoding of texts
        self._response.encoding = "utf-8"


async def read_bounded_async(response: Any) -> None:
    """Read a response's body within bounds; a hook of `httpx.AsyncClient`."""
    body = BoundedBody(response)
    async for part in response.aiter_raw():
        body.add(part)
    body.hand_over()


def read_bounded(response: Any) -> None:
    """Read a response's body within bounds; a hook of `httpx.Client`."""
    body = BoundedBody(response)
    for part in response.iter_raw():
        body.add(part)
    body.hand_over()
