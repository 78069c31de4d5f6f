"""A view: an image that the model was shown."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.dialogue.chat import ImageFile
from render_agent.scans.camera import AnyCamera
from render_agent.util.safe_parse import Count


@dataclass(frozen=True, slots=True)
class View:
    """An image that the model was shown."""

    number: Count  # index within the question, from 0
    kind: str
    file: ImageFile  # the image file, relative to the run folder
    camera: AnyCamera | None
    """The camera it was rendered with; for `around`, the first of the four. None for a target, whose pose is hidden."""
