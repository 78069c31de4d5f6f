"""A view: an image that the model was shown."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.dialogue.chat import ImageFile
from render_agent.scans.camera import AnyCamera
from render_agent.util.safe_parse import Count


@dataclass(frozen=True, slots=True)
class View:
    """An image that the model was shown.

    Attributes:
        number: Index within the question, from 0.
        kind: `ego`, `top` or `around`.
        file: The image file, relative to the run folder.
        camera: The camera it was rendered with; for `around`, the first of the four.
    """

    number: Count
    kind: str
    file: ImageFile
    camera: AnyCamera
