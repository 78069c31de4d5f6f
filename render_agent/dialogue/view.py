"""A view: an image that the model was shown."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.dialogue.chat import PictureFile
from render_agent.scans.camera import AnyCamera
from render_agent.util.safe_parse import Count


@dataclass(frozen=True, slots=True)
class View:
    """A picture that the model was shown.

    number: counted from 0 within the question. kind: `ego`, `top` or `around`. file: the picture,
    relative to the run folder. camera: what it was taken with (for `around`, the first of the four).
    """

    number: Count
    kind: str
    file: PictureFile
    camera: AnyCamera
