"""The sight check of a session: whether the client's model reads the images in tool results."""

from __future__ import annotations

import secrets
from string import ascii_lowercase
from typing import Any

import numpy as np

from render_agent.engines.sight_check import code_image, draw_codes, judge_sight, read_code
from render_agent.render.png import encode_png
from render_agent.util.reasons import truncate

MAX_REPLY_CHARS = 200  # of a recorded reply


class ClientSightCheck:
    """Shows images of codes, one at a time with the same text, and judges what the client reads.

    Attributes:
        text: The text shown with every image. It has random letters, so that no cache of another session answers it.
        finding: The finding of the test; None while an image waits for its code.
    """

    def __init__(self, size: tuple[int, int], uri: str) -> None:
        nonce = "".join(secrets.choice(ascii_lowercase) for _ in range(8))
        self.text = (
            f"Sight check {nonce}: call start again, with the four digits in this image as code. If you see no image, read"
            f" the resource {uri}. If that shows none either, pass none as code."
        )
        self.finding: str | None = None
        self._size = size
        self._codes = draw_codes()
        self._replies: list[str] = []

    @property
    def png(self) -> bytes:
        """The image whose code is due."""
        code = self._codes[min(len(self._replies), len(self._codes) - 1)]
        return encode_png(np.asarray(code_image(code, self._size)))

    def take(self, code: object) -> bool:
        """Record what the client reads in the current image, if anything; return True if a code is still due.

        A wrong code ends the test.
        """
        if self.finding is None and code is not None:
            is_right = read_code(str(code)) == self._codes[len(self._replies)]
            self._replies.append(truncate(code, MAX_REPLY_CHARS))
            if not is_right or len(self._replies) == len(self._codes):
                self.finding = judge_sight(self._codes, self._replies)
        return self.finding is None

    @property
    def record(self) -> dict[str, Any]:
        """The result for `config.json`."""
        found = {"finding": self.finding, "codes": self._codes, "replies": self._replies}
        return {"finding": self.finding, "servers": [found]}
