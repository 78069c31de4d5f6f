"""The sight check: whether a model behind a server is shown the images that it is sent, and not others.

The model reads a random four-digit code in one image, then answers the same text with a second image.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from typing import Literal

from PIL import Image, ImageDraw

from render_agent.dialogue.chat import without_thinking
from render_agent.render.map_view.overlay import font

# `stale`: the second image was answered with the code of the first; `unknown`: there was no reply.
Finding = Literal["sighted", "blind", "stale", "unknown"]

CODE = re.compile(r"(?<![0-9])(?:[0-9]{4}|[0-9](?:[ -][0-9]){3})(?![0-9])")


def draw_codes(count: int = 2) -> list[str]:
    """Return random four-digit codes that differ. They do not start with 0, which a reply in JSON would lose."""
    return [str(code) for code in secrets.SystemRandom().sample(range(1000, 10000), count)]


def code_image(code: str, size: tuple[int, int]) -> Image.Image:
    """Return an image of `size` (width, height) filled by a code in black on white."""
    width, height = size
    left, top, right, bottom = font(100).getbbox(code)
    scale = min(0.8 * width / (right - left), 0.6 * height / (bottom - top))
    image = Image.new("RGB", size, "white")
    large = font(max(int(100 * scale), 1))
    ImageDraw.Draw(image).text((width / 2, height / 2), code, "black", large, anchor="mm")
    return image


def read_code(reply: str) -> str | None:
    """Return the only four-digit number in a reply, outside its thinking; None if it has none or several.

    The digits may be separated by spaces or hyphens. A number that is repeated counts once.
    """
    found = {re.sub("[ -]", "", code) for code in CODE.findall(without_thinking(reply))}
    return found.pop() if len(found) == 1 else None


def judge_sight(codes: Sequence[str], replies: Sequence[str]) -> Finding:
    """Return the finding from the replies to the images of the codes, in order; later ones may be missing."""
    read = [read_code(reply) for reply in replies]
    if not read:
        return "unknown"
    if read[0] == codes[0] and any(code == codes[0] for code in read[1:]):
        return "stale"
    return "sighted" if read == list(codes) else "blind"
