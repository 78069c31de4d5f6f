"""The content of a turn's page: the same texts and pictures that a model would be given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from PIL.Image import Image

from render_agent.dialogue.chat import pictures
from render_agent.dialogue.state import Question, View
from render_agent.engines.base import Request
from render_agent.geometry.camera import Camera, MapCamera

POINT_BELOW_EYES_METRES = 0.6
"""Metres below the camera's eyes: the height of a point on the map where nothing else is asked for."""


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """A picture in the dialogue. place: its place among all of them, from 0; size: (width, height)."""

    place: int
    caption: str
    view: View | None
    size: tuple[int, int]

    @property
    def map(self) -> MapCamera | None:
        """The camera of a map, with which a place in the picture is one in the scene."""
        camera = self.view.camera if self.view is not None else None
        return camera if isinstance(camera, MapCamera) else None

    @property
    def alternative(self) -> str:
        """The picture in words, for whoever does not see it."""
        camera = self.view.camera if self.view is not None else None
        words = self.caption.rstrip(":")
        if isinstance(camera, Camera):
            x, y, z = camera.position
            words += f", from [{x:.2f}, {y:.2f}, {z:.2f}], yaw {camera.yaw:.0f}, pitch {camera.pitch:.0f}"
        return words


@dataclass(slots=True)
class ShownMessage:
    """One message: its texts, and its pictures with what stands before each."""

    role: str
    texts: list[str] = field(default_factory=list)
    pictures: list[ShownPicture] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PageContent:
    """One request, taken apart for a page.

    answer_form: the form that the answer must have, in words. feedback: what the last message says before its pictures.
    """

    question: Question
    turn: int
    last: bool
    answer_form: str
    feedback: str
    entries: Sequence[ShownMessage]

    @property
    def instructions(self) -> str:
        """The fixed text that every dialogue begins with."""
        return "\n".join(self.entries[0].texts)

    @property
    def now(self) -> list[ShownPicture]:
        """The pictures of this turn."""
        return self.entries[-1].pictures

    @property
    def earlier(self) -> list[ShownPicture]:
        """Every view shown before that is not shown now, once, by its number."""
        now = {shown.view.number for shown in self.now if shown.view is not None}
        by_number = {
            shown.view.number: shown
            for entry in self.entries[:-1]
            for shown in entry.pictures
            if shown.view is not None and shown.view.number not in now
        }
        return [by_number[number] for number in sorted(by_number)]

    @property
    def map(self) -> ShownPicture | None:
        """The latest map, where it is not shown now."""
        maps = [shown for shown in self.earlier if shown.map is not None]
        return maps[-1] if maps and not any(shown.map for shown in self.now) else None

    @property
    def point_height(self) -> float:
        """The height, in metres, of a point that is chosen on the map."""
        cameras = [
            shown.view.camera for entry in self.entries for shown in entry.pictures if shown.view
        ]
        heights = [camera.position[2] for camera in cameras if isinstance(camera, Camera)]
        return round(heights[0] - POINT_BELOW_EYES_METRES, 1) if heights else 1.0


def page_content(request: Request, question: Question) -> PageContent:
    """Return the content of the page of a request; of the question only what its prompt holds is read."""
    views = {view.file: view for view in request.views}
    entries: list[ShownMessage] = []
    index = 0
    for message in request.messages:
        entry = ShownMessage(message["role"])
        for piece in message["content"]:
            if piece["type"] == "text":
                entry.texts.append(piece["text"])
                continue
            caption = entry.texts.pop() if entry.texts else "a view"
            size = request.picture(piece["image"]).size
            entry.pictures.append(ShownPicture(index, caption, views.get(piece["image"]), size))
            index += 1
        entries.append(entry)
    prompt, _, standing = entries[1].texts[0].rpartition("\n\n")
    texts = [standing, *entries[-1].texts[1:]] if len(entries) == 2 else entries[-1].texts
    return PageContent(
        question=question,
        turn=request.turn,
        last=request.last,
        answer_form=prompt.rpartition("\n")[2],
        feedback="\n\n".join(texts),
        entries=entries,
    )


def picture_at(request: Request, place: int) -> Image | None:
    """Return the picture at a place of a request's dialogue, None where there is none."""
    files = pictures(list(request.messages))
    return request.picture(files[place]) if place < len(files) else None
