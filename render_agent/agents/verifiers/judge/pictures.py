"""Pictures that are to be judged: anybody's files, or pictures at hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageOps

from render_agent.text.reasons import reason_of


@dataclass(frozen=True)
class StoredPicture:
    """A picture that is kept elsewhere, where `read` gives it by its name, RGB."""

    name: str
    read: Callable[[str], Image.Image]


Source = Image.Image | StoredPicture | str | Path
"""A picture at hand, one kept elsewhere, or the file of one."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
"""The kinds of files that are read; reading some others would start programs."""

MAX_SIDE_PIXELS = 1024
"""Pixels: a picture of a file that is longer is scaled down, as a photograph may cost 16,000 tokens."""


class Pictures:
    """Pictures by a name that messages can hold; files are read when they are needed.

    The same source has the same name. Those of files are turned as their camera says and scaled to
    `longest_side`; others are left as they are, but for their colours.
    """

    def __init__(self, longest_side: int = MAX_SIDE_PIXELS) -> None:
        self.longest_side = longest_side
        self._sources: dict[str, Source] = {}
        self._names: dict[str | int | StoredPicture, str] = {}

    def name(self, source: Source) -> str:
        """Return the name of a picture, which `picture` gives for it."""
        key: str | int | StoredPicture = (
            source if isinstance(source, StoredPicture) else str(source)
        )
        if isinstance(source, Image.Image):
            key = id(source)
        if key not in self._names:
            self._names[key] = f"judge/{len(self._names)}.png"
            self._sources[self._names[key]] = source
        return self._names[key]

    def picture(self, name: str) -> Image.Image:
        """Return the RGB picture of a name. Raises whatever its file causes."""
        source = self._sources[name]
        if isinstance(source, Image.Image):
            return source.convert("RGB")
        if isinstance(source, StoredPicture):
            return source.read(source.name).convert("RGB")
        with warnings.catch_warnings():
            # So many pixels that the library warns of them are far more than it needs to judge.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(source, formats=FORMATS) as opened:
                opened.draft("RGB", (self.longest_side, self.longest_side))
                picture = ImageOps.exif_transpose(opened).convert("RGB")
        picture.thumbnail((self.longest_side, self.longest_side))
        return picture

    def faults(self) -> dict[str, str]:
        """Return why pictures that have a name cannot be read, in one sentence, by their names."""
        reasons = {}
        for name in self._sources:
            try:
                self.picture(name)
            except Exception as error:  # noqa: BLE001 - a file may be anything, and the readers of
                # its many formats raise anything
                reasons[name] = f"the picture cannot be read: {reason_of(error)}"
        return reasons
