"""The web page on which a person replies, with the same texts and images that a model gets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from render_agent.dialogue.answer import options_by_letter
from render_agent.dialogue.chat import View, image_files
from render_agent.dialogue.reply import FIELDS
from render_agent.engines.engine import Request
from render_agent.render.png import encode_png
from render_agent.scans.camera import Camera, MapCamera
from render_agent.util.safe_parse import parse_json
from render_agent.util.web.checks import PageFiles, image_response
from render_agent.util.web.templates import ASSETS, environment

if TYPE_CHECKING:
    from render_agent.engines.human.human_engine import HumanEngine

TEMPLATES = Path(__file__).parent / "templates"
POINT_BELOW_CAMERA_METRES = 0.6  # default height of a point picked on the map: furniture height


@dataclass(frozen=True, slots=True)
class StepButton:
    """A button that adds `value` to a numeric field."""

    value: float
    text: str
    spoken: str
    """Label for screen readers."""
    keys: str
    """Keyboard shortcuts, as in aria-keyshortcuts."""


# Buttons by field of the reply. A field without buttons has only a text input.
STEPS = {
    "rotation_angle_degrees": (
        StepButton(90, "⟲ 90", "turn 90 degrees left", "Shift+Q Shift+ArrowLeft"),
        StepButton(45, "⟲ 45", "turn 45 degrees left", "Q ArrowLeft"),
        StepButton(-45, "45 ⟳", "turn 45 degrees right", "E ArrowRight"),
        StepButton(-90, "90 ⟳", "turn 90 degrees right", "Shift+E Shift+ArrowRight"),
    ),
    "pitch_degrees": (
        StepButton(15, "up 15", "tilt 15 degrees up", "T"),
        StepButton(-15, "down 15", "tilt 15 degrees down", "G"),
    ),
    "forward_meters": (
        StepButton(0.5, "ahead ½", "half a metre ahead", "W ArrowUp"),
        StepButton(-0.5, "back ½", "half a metre back", "S ArrowDown"),
    ),
    "left_meters": (
        StepButton(0.5, "left ½", "half a metre to the left", "A"),
        StepButton(-0.5, "right ½", "half a metre to the right", "D"),
    ),
    "z_delta_meters": (
        StepButton(0.5, "up ½", "half a metre up", "R"),
        StepButton(-0.5, "down ½", "half a metre down", "F"),
    ),
}


class PlayPage:
    """Shows the current request of an engine and accepts the person's reply."""

    def __init__(self, engine: HumanEngine, token: str) -> None:
        self.engine = engine
        self.token = token

    def routes(self) -> list[BaseRoute]:
        """Return the routes of the page, its state, the images of the dialogue and the reply endpoint."""
        return [
            Route("/", self._page),
            Route("/state", self._state),
            Route("/image/{key}/{index:int}.png", self._image),
            Route("/reply", self._reply, methods=["POST"]),
            Mount("/assets", PageFiles(ASSETS, ".css", ".js", ".svg")),
            Mount("/", PageFiles(TEMPLATES, ".css", ".js")),
        ]

    def _page(self, request: HttpRequest) -> Response:
        engine, shown = self.engine, self.engine.show()
        values: dict[str, Any] = {
            "name": "play",
            "stamps": [],
            "notes": [],
            "root": "",
            "token": self.token,
            "engine": engine,
            "key": "",
            "dialogue": None,
            "choices": {},
            "fields": [field for field in FIELDS if field.amount is not None],
            "flags": [field for field in FIELDS if field.moves and field.is_flag],
            "steps": STEPS,
        }
        if shown is not None:
            key, current = shown
            question = engine.questions[current.question_id]
            values |= {
                "key": key,
                "question": question,
                "choices": options_by_letter(question.options),
            }
            values["dialogue"] = dialogue_of(current)
        return HTMLResponse(environment("engines/human").get_template("play.html").render(**values))

    def _state(self, request: HttpRequest) -> Response:
        current = self.engine.first()
        key = None if current is None else current[0]
        return JSONResponse({"key": key, "over": self.engine.over})

    async def _reply(self, request: HttpRequest) -> Response:
        """Accept a reply {"key": key of the turn, "text": verbatim reply}; 409 if the turn is over."""
        try:
            body = parse_json(await request.body())
            key, text = body["key"], body["text"]
        except (ValueError, KeyError, TypeError):
            key = text = None
        if not (isinstance(key, str) and isinstance(text, str)):
            return JSONResponse({"error": "A reply must be {key, text}."}, 400)
        if not self.engine.answer(key, text):
            message = (
                "This turn was already answered, perhaps in another window. Showing the next turn."
            )
            return JSONResponse({"error": message}, 409)
        return JSONResponse({})

    def _image(self, request: HttpRequest) -> Response:
        current, index = self.engine.first(), request.path_params["index"]
        if current is None or current[0] != request.path_params["key"]:
            raise HTTPException(404)
        files = image_files(list(current[1].messages))
        if index >= len(files):
            raise HTTPException(404)
        return image_response(
            encode_png(np.asarray(current[1].load_image(files[index]).convert("RGB")))
        )


@dataclass(frozen=True, slots=True)
class DialogueImage:
    """An image of the dialogue, as the template needs it."""

    index: int
    """Index among all images of the dialogue."""
    caption: str
    view: View | None
    size: tuple[int, int]
    """Width and height in pixels."""

    @property
    def map(self) -> MapCamera | None:
        """The camera if the image is a map, to convert pixels to scene coordinates."""
        camera = self.view.camera if self.view is not None else None
        return camera if isinstance(camera, MapCamera) else None

    @property
    def alternative(self) -> str:
        """Alternative text for screen readers."""
        camera = self.view.camera if self.view is not None else None
        text = self.caption.rstrip(":")
        if isinstance(camera, Camera):
            x, y, z = camera.position
            text += f", from [{x:.2f}, {y:.2f}, {z:.2f}], yaw {camera.yaw:.0f}, pitch {camera.pitch:.0f}"
        return text


def dialogue_of(request: Request) -> dict[str, Any]:
    """Return the template values of a request.

    The keys that are not obvious: `entries` are the messages, each with `role`, `texts` and `images`; `now` are the
    images of this turn, `earlier` all other views, and `map` the latest map among these (None if this turn shows a
    map); `answer_form` is the required form of the answer; `feedback` is the text of the last message before its
    images.
    """
    entries = _entries(request)
    images = entries[-1]["images"]
    views = {
        image.view.number: image
        for entry in entries
        for image in entry["images"]
        if image.view is not None
    }
    current = {image.view.number for image in images if image.view is not None}
    earlier = [views[number] for number in sorted(views.keys() - current)]
    maps = [] if any(image.map for image in images) else [image for image in earlier if image.map]
    cameras = [views[number].view.camera for number in sorted(views)]
    heights = [camera.position[2] for camera in cameras if isinstance(camera, Camera)]
    prompt, _, position = entries[1]["texts"][0].rpartition("\n\n")
    first_texts = [position, *entries[-1]["texts"][1:]]
    return {
        "turn": request.turn,
        "last": request.is_last_turn,
        "answer_form": prompt.rpartition("\n")[2],
        "feedback": "\n\n".join(first_texts if len(entries) == 2 else entries[-1]["texts"]),
        "entries": entries,
        "now": images,
        "earlier": earlier,
        "map": maps[-1] if maps else None,
        "point_height": round(heights[0] - POINT_BELOW_CAMERA_METRES, 1) if heights else 1.0,
    }


def _entries(request: Request) -> list[dict[str, Any]]:
    views = {view.file: view for view in request.views}
    entries: list[dict[str, Any]] = []
    index = 0
    for message in request.messages:
        texts: list[str] = []
        images: list[DialogueImage] = []
        for piece in message["content"]:
            if piece["type"] == "text":
                texts.append(piece["text"])
                continue
            file = piece["image"]
            caption = texts.pop() if texts else "a view"
            size = request.load_image(file).size
            images.append(DialogueImage(index, caption, views.get(file), size))
            index += 1
        entries.append({"role": message["role"], "texts": texts, "images": images})
    return entries
