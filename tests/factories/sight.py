"""Simulated models for the sight check, which see only the pixels of a request to any API."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from functools import cache

import numpy as np
from PIL import Image, ImageDraw

from render_agent.engines.sight_check import PROMPT
from render_agent.render.map_view.overlay import font

BOX = (24, 32)

PNG = re.compile(rb"iVBORw0KGgo[A-Za-z0-9+/_-]+=*")  # in base64


def is_sight_check(body: bytes) -> bool:
    """True if a request is one of a sight check."""
    return PROMPT.partition("{nonce}")[2].encode() in body


def images_of(body: bytes) -> list[Image.Image]:
    """Return the images of a request, in order."""
    encoded = [found.translate(bytes.maketrans(b"-_", b"+/")) for found in PNG.findall(body)]
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in encoded]


def _crop(dark: np.ndarray) -> np.ndarray:
    """Return the bounding box of the dark pixels, scaled to BOX."""
    rows, columns = np.flatnonzero(dark.any(1)), np.flatnonzero(dark.any(0))
    cropped = dark[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    scaled = Image.fromarray((cropped * 255).astype(np.uint8)).resize(BOX)
    return np.asarray(scaled) / 255


@cache
def _digits() -> list[np.ndarray]:
    drawn = []
    for digit in "0123456789":
        image = Image.new("L", (200, 200), 255)
        ImageDraw.Draw(image).text((50, 50), digit, 0, font(100))
        drawn.append(_crop(np.asarray(image) < 128))
    return drawn


def read_digits(image: Image.Image) -> str | None:
    """Read a row of dark digits by comparing each with drawn ones; None if no four digits are separated."""
    dark = np.asarray(image.convert("L")) < 128
    edges = np.flatnonzero(np.diff(dark.any(0).astype(int), prepend=0, append=0))
    glyphs = [dark[:, left:right] for left, right in zip(edges[::2], edges[1::2], strict=True)]
    if len(glyphs) != 4:
        return None
    found = [
        min(range(10), key=lambda digit: np.abs(_crop(glyph) - _digits()[digit]).mean())
        for glyph in glyphs
    ]
    return "".join(map(str, found))


def read_code(body: bytes) -> str:
    """Return the reply of a model that reads the last image of a request."""
    return seen_as(lambda images: images)(body)


def seen_as(see: Callable[[list[Image.Image]], list[Image.Image]]) -> Callable[[bytes], str]:
    """Return the replies of a model that reads the last image it sees."""

    def reply(body: bytes) -> str:
        seen = see(images_of(body))
        code = read_digits(seen[-1]) if seen else None
        return "I see no digits." if code is None else f"The image shows {code}."

    return reply


def drops_images() -> Callable[[bytes], str]:
    """Return the replies of a model whose server drops all images."""
    return seen_as(lambda images: [])


def downscales(side: int) -> Callable[[bytes], str]:
    """Return the replies of a model whose server downscales images to `side` pixels."""
    return seen_as(lambda images: [i.resize((side, side)).resize(i.size) for i in images])


def keeps_the_first_image() -> Callable[[bytes], str]:
    """Return the replies of a model whose server shows the image of the first request in all later ones."""
    first: list[Image.Image] = []

    def see(images: list[Image.Image]) -> list[Image.Image]:
        first.extend(images[: 1 - len(first)])
        return first

    return seen_as(see)


def caches_by_text() -> Callable[[bytes], str]:
    """Return the replies of a server that answers from a cache whose keys are requests without their images."""
    cache: dict[bytes, str] = {}
    return lambda body: cache.setdefault(PNG.sub(b"", body), read_code(body))
