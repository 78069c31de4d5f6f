"""Images for notebooks and programs: views of a dialogue or an open scene."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from render_agent.errors import RunLogError, os_errors
from render_agent.render.png import decode_png, encode_png
from render_agent.render.viewer import RenderedView
from render_agent.scans.camera import Camera, MapCamera
from render_agent.util.web.templates import environment

THUMBNAIL = (320, 320)  # maximum width and height in pixels of an image embedded in HTML


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """A rendered image. Notebooks display it.

    Attributes:
        kind: `ego`, `top` or `around`; `target` for the target of a question about a pose.
        camera: The camera; None for a target.
        source: The PNG file, read when needed, or the pixels, (H, W, 3) uint8, RGB.
        depth: Depth along the optical axis in metres, (H, W) float32, inf if nothing was scanned there. None for
            views of a dialogue, maps, and `around` views.
        number: Number of the view in its dialogue, from 0; None outside a dialogue.

    >>> import render_agent
    >>> view = render_agent.open_scene(render_agent.bundled_rooms()["room00"]).view()
    >>> view
    <view (ego), 640 x 480 pixels>
    >>> view.depth.shape
    (480, 640)
    """

    kind: str
    camera: Camera | MapCamera | None
    source: Path | NDArray[np.uint8]
    depth: NDArray[np.float32] | None = None
    number: int | None = None

    @classmethod
    def from_rendered(cls, rendering: RenderedView) -> View:
        """Wrap an image that was just rendered."""
        return cls(rendering.kind, rendering.camera, rendering.image, rendering.depth)

    def png(self) -> bytes:
        """Return the image as PNG. Raises RunLogError if its file is missing."""
        if not isinstance(self.source, Path):
            return encode_png(self.source)
        with os_errors(
            RunLogError, f"read the image {self.source}", "resume the run to render it again"
        ):
            return self.source.read_bytes()

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """The image, (H, W, 3) uint8, RGB."""
        return decode_png(self.png()) if isinstance(self.source, Path) else self.source

    @property
    def image(self) -> Image.Image:
        """The image as an RGB PIL image."""
        return Image.fromarray(self.pixels)

    def save(self, path: str | Path) -> Path:
        """Write the image as a PNG file and return its path."""
        path = Path(path)
        path.write_bytes(self.png())
        return path

    def thumbnail(self) -> str:
        """Return a small JPEG of the image as a data URI, for self-contained HTML."""
        small = self.image
        small.thumbnail(THUMBNAIL)
        buffer = io.BytesIO()
        small.save(buffer, "JPEG", quality=85)
        return "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self.pixels, dtype)

    def __repr__(self) -> str:
        height, width = self.pixels.shape[:2]
        number = "" if self.number is None else f" {self.number}"
        return f"<view{number} ({self.kind}), {width} x {height} pixels>"

    def _repr_png_(self) -> bytes:
        return self.png()


def page(template: str, **names: Any) -> str:
    """Render a template of this package with all values escaped."""
    return str(environment("api").get_template(template).render(**names))
