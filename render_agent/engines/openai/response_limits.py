"""What a server may answer with: plain bytes, and not too many of them."""

from __future__ import annotations

from typing import Any

MOST_BYTES = 64 << 20
"""Of one answer."""

PLAIN = {"accept-encoding": "identity"}
"""The header that asks for answers that are not packed: a few packed bytes may stand for any number."""


class AnswerRefused(Exception):
    """An answer that is not read to its end, and why."""


async def read_bounded_later(response: Any) -> None:
    """Read an answer's body before the client does. AnswerRefused where it is packed or too long.

    response: of httpx, its body not read yet.
    """
    _refuse_packed(response)
    parts, size = [], 0
    async for part in response.aiter_raw():
        parts.append(part)
        size = _added(size, part)
    _keep(response, parts)


def read_bounded_now(response: Any) -> None:
    """Do the same for a client that waits."""
    _refuse_packed(response)
    parts, size = [], 0
    for part in response.iter_raw():
        parts.append(part)
        size = _added(size, part)
    _keep(response, parts)


def _refuse_packed(response: Any) -> None:
    packed = response.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise AnswerRefused(f"its answer is packed ({packed[:40]!r}), which nobody asked for")


def _added(size: int, part: bytes) -> int:
    if size + len(part) > MOST_BYTES:
        raise AnswerRefused(f"its answer has more than {MOST_BYTES:,} bytes")
    return size + len(part)


def _keep(response: Any, parts: list[bytes]) -> None:
    response._content = b"".join(parts)  # where the client looks before it reads
    response.encoding = "utf-8"  # as JSON is; the server could name what is no encoding of texts
