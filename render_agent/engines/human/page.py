"""The page on which a person takes the model's turns: the texts and pictures that a model would be given."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

from render_agent.dialogue.answer import letters
from render_agent.dialogue.chat import pictures
from render_agent.dialogue.reply import FIELDS
from render_agent.dialogue.view import View
from render_agent.engines.engine import Request
from render_agent.render.png import encode
from render_agent.scans.camera import Camera, MapCamera
from render_agent.util.safe_parse import parse_json
from render_agent.util.web.checks import PageFiles, picture_response
from render_agent.util.web.templates import ASSETS, environment

if TYPE_CHECKING:
    from render_agent.engines.human.human_engine import HumanEngine

OWN = Path(__file__).parent / "templates"
"""Style and script of this page, beside its template."""


@dataclass(frozen=True, slots=True)
class StepButton:
    """A button that adds `value` to an amount. keys: its shortcuts, as in aria-keyshortcuts."""

    value: float
    text: str
    spoken: str
    keys: str


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
"""Buttons of the amounts, by field of the reply; a field without any is only typed."""

POINT_BELOW_EYES_METRES = 0.6
"""Default height of a point chosen on the map, below the camera's eyes."""


class PlayPage:
    """Shows the first request of an engine and takes what the person replies."""

    def __init__(self, engine: HumanEngine, token: str) -> None:
        self.engine = engine
        self.token = token

    def routes(self) -> list[BaseRoute]:
        """Return the page, the key of its turn, the pictures of the dialogue, and where replies go."""
        return [
            Route("/", self._shown),
            Route("/state", self._state),
            Route("/picture/{key}/{place:int}.png", self._picture),
            Route("/reply", self._reply, methods=["POST"]),
            Mount("/assets", PageFiles(ASSETS, ".css", ".js", ".svg")),
            Mount("/", PageFiles(OWN, ".css", ".js")),
        ]

    def _shown(self, request: HttpRequest) -> Response:
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
            "steps": STEPS,
        }
        if shown is not None:
            key, asked = shown
            question = engine.questions[asked.question_id]
            values |= {"key": key, "question": question, "choices": letters(question.options)}
            values["dialogue"] = dialogue_of(asked)
        return HTMLResponse(environment("engines/human").get_template("play.html").render(**values))

    def _state(self, request: HttpRequest) -> Response:
        shown = self.engine.first()
        key = None if shown is None else shown[0]
        return JSONResponse({"key": key, "over": self.engine.over})

    async def _reply(self, request: HttpRequest) -> Response:
        """Take a reply, {"key": the turn's, "text": word for word}; 409 if its turn is over."""
        try:
            body = parse_json(await request.body())
            key, text = body["key"], body["text"]
        except (ValueError, KeyError, TypeError):
            key = text = None
        if not (isinstance(key, str) and isinstance(text, str)):
            return JSONResponse({"error": "A reply is {key, text}."}, 400)
        if not self.engine.answer(key, text):
            message = (
                "This turn was answered already, perhaps in another window; here is the next one."
            )
            return JSONResponse({"error": message}, 409)
        return JSONResponse({})

    def _picture(self, request: HttpRequest) -> Response:
        shown, place = self.engine.first(), request.path_params["place"]
        if shown is None or shown[0] != request.path_params["key"]:
            raise HTTPException(404)
        files = pictures(list(shown[1].messages))
        if place >= len(files):
            raise HTTPException(404)
        return picture_response(encode(np.asarray(shown[1].picture(files[place]).convert("RGB"))))


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
        """The picture in words, for screen readers."""
        camera = self.view.camera if self.view is not None else None
        words = self.caption.rstrip(":")
        if isinstance(camera, Camera):
            x, y, z = camera.position
            words += f", from [{x:.2f}, {y:.2f}, {z:.2f}], yaw {camera.yaw:.0f}, pitch {camera.pitch:.0f}"
        return words


def dialogue_of(request: Request) -> dict[str, Any]:
    """Return a request taken apart for the template.

    `entries` are the messages: `role`, `texts`, `pictures`. `now` are the pictures of this turn, `earlier`
    every view that is not shown now, `map` the latest map among these. `answer_form` says which form the
    answer must have, `feedback` is what the last message says before its pictures.
    """
    entries = _entries(request)
    now = entries[-1]["pictures"]
    views = {
        shown.view.number: shown
        for entry in entries
        for shown in entry["pictures"]
        if shown.view is not None
    }
    shown_now = {shown.view.number for shown in now if shown.view is not None}
    earlier = [views[number] for number in sorted(views.keys() - shown_now)]
    maps = [] if any(shown.map for shown in now) else [shown for shown in earlier if shown.map]
    cameras = [views[number].view.camera for number in sorted(views)]
    heights = [camera.position[2] for camera in cameras if isinstance(camera, Camera)]
    prompt, _, standing = entries[1]["texts"][0].rpartition("\n\n")
    first = [standing, *entries[-1]["texts"][1:]]
    return {
        "turn": request.turn,
        "last": request.last,
        "answer_form": prompt.rpartition("\n")[2],
        "feedback": "\n\n".join(first if len(entries) == 2 else entries[-1]["texts"]),
        "entries": entries,
        "now": now,
        "earlier": earlier,
        "map": maps[-1] if maps else None,
        "point_height": round(heights[0] - POINT_BELOW_EYES_METRES, 1) if heights else 1.0,
    }


def _entries(request: Request) -> list[dict[str, Any]]:
    views = {view.file: view for view in request.views}
    entries: list[dict[str, Any]] = []
    place = 0
    for message in request.messages:
        texts: list[str] = []
        shown: list[ShownPicture] = []
        for piece in message["content"]:
            if piece["type"] == "text":
                texts.append(piece["text"])
                continue
            file = piece["image"]
            caption = texts.pop() if texts else "a view"
            shown.append(ShownPicture(place, caption, views.get(file), request.picture(file).size))
            place += 1
        entries.append({"role": message["role"], "texts": texts, "pictures": shown})
    return entries
