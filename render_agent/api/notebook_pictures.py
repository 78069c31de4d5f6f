"""What a notebook shows: pictures of a dialogue or a scene, and the pages of results."""

from __future__ import annotations

import base64
import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.errors import RunLogError, os_errors
from render_agent.geometry.camera import Camera, MapCamera
from render_agent.render.png import decode, encode
from render_agent.web.templates import environment

THUMBNAIL = (320, 320)
"""Pixels that a picture in the middle of a text is at most wide and high."""


class Shown(ABC):
    """A picture that shows itself; subclasses say where its PNG comes from."""

    @abstractmethod
    def png(self) -> bytes:
        """Return the picture as the bytes of a PNG file, without any loss."""

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The picture, (H, W, 3) uint8, RGB."""
        return decode(self.png())

    @property
    def image(self) -> Image.Image:
        """The picture for PIL, RGB."""
        return Image.fromarray(self.pixels)

    def save(self, path: str | Path) -> Path:
        """Write the picture as a PNG file, without any loss, and return its path."""
        path = Path(path)
        path.write_bytes(self.png())
        return path

    def thumbnail(self) -> str:
        """Return a small JPEG of the picture as a data URI.

        What a notebook shows has no folder that pictures could lie in: they are part of the text, so
        they are made small there. Everywhere else pictures are files.
        """
        small = self.image
        small.thumbnail(THUMBNAIL)
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=85)
        return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the pixels, so that numpy and whatever builds on it take a picture as it is."""
        return np.asarray(self.pixels, dtype)

    def _repr_png_(self) -> bytes:
        return self.png()


@dataclass(frozen=True, eq=False, repr=False)
class View(Shown):
    """A picture that the model was shown, read from its run folder when it is used.

    number: counted from 0 within the question. kind: `ego`, `top` or `around`. path: its file, a
    PNG. camera: what it was taken with.

    >>> import render_agent
    >>> room = render_agent.bundled_rooms()["room00"]
    >>> dialogue = render_agent.ask(room, "Is there a sofa?", engine="scripted", output="runs")
    >>> dialogue.views[0]
    <view 0 (top) of question question>
    >>> dialogue.views[0].pixels.shape
    (480, 640, 3)
    """

    question_id: str
    number: int
    kind: str
    path: Path
    camera: Camera | MapCamera

    def png(self) -> bytes:
        """Return the file's bytes. RunLogError where it is gone."""
        again = "continuing the run draws it again"
        with os_errors(RunLogError, f"read the picture {self.path}", again):
            return self.path.read_bytes()

    def __repr__(self) -> str:
        return f"<view {self.number} ({self.kind}) of question {self.question_id}>"


@dataclass(frozen=True, eq=False, repr=False)
class Picture(Shown):
    """What was drawn of a scene.

    colours: (H, W, 3) uint8, RGB. depth: (H, W) float32, metres along the optical axis, inf where
    nothing is; None for a map and for four directions in one picture. camera: what it was taken
    with. kind: `ego`, `top` or `around`.

    >>> import render_agent
    >>> picture = render_agent.open_scene(render_agent.bundled_rooms()["room00"]).view()
    >>> picture
    <picture (ego), 640 x 480 pixels>
    >>> picture.depth.shape
    (480, 640)
    """

    colours: NDArray[np.uint8]
    depth: NDArray[np.float32] | None
    camera: Camera | MapCamera
    kind: str

    def png(self) -> bytes:
        """Return the picture as the bytes of a PNG file."""
        return encode(self.colours)

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The picture, (H, W, 3) uint8, RGB."""
        return self.colours

    def __repr__(self) -> str:
        height, width = self.colours.shape[:2]
        return f"<picture ({self.kind}), {width} x {height} pixels>"


def page(template: str, **names: Any) -> str:
    """Return a template of this part filled in, everything escaped: texts of models and files are anybody's."""
    return str(environment("api").get_template(template).render(**names))
