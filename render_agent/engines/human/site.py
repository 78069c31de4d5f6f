"""The page on which a person takes the model's turns."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.dialogue.answer import letters
from render_agent.dialogue.state import Question
from render_agent.engines.human.dialogue import dialogue_of, picture_at
from render_agent.engines.human.session import Desk, Waiting
from render_agent.render.png import encode
from render_agent.text.safe_parse import parse_json
from render_agent.web.folder import KINDS, find_file
from render_agent.web.server import Page
from render_agent.web.templates import ASSETS, environment

OWN = Path(__file__).parent / "templates"
"""Where the style and script of this page lie, beside its template."""

JSON = KINDS[".json"]


class PlaySite:
    """Shows the first request on a desk and lays down what the person replies.

    kinds: the kinds of view that may be asked for; without any a reply has no moves. name: who plays.
    """

    def __init__(
        self,
        desk: Desk,
        questions: Sequence[Question],
        kinds: Sequence[str],
        max_turns: int,
        name: str,
        token: str,
    ) -> None:
        self.desk = desk
        self.questions: Mapping[str, Question] = {question.id: question for question in questions}
        self.kinds = tuple(kinds)
        self.max_turns = max_turns
        self.name = name
        self.token = token

    def get(self, path: str) -> Page | Path | None:
        """Return the page, where the sitting stands (`state`), a picture of the dialogue, or an asset."""
        if path == "":
            page = Page(self._page().encode())
            if self.desk.standing().over:
                self.desk.known()
            return page
        if path == "state":
            return _json(asdict(self.desk.standing()))
        if match := re.fullmatch(r"picture/([0-9a-f-]{1,40})/([0-9]{1,6})\.png", path):
            return self._picture(match[1], int(match[2]))
        if path.startswith("assets/"):
            return find_file(ASSETS, path.removeprefix("assets/"))
        return find_file(OWN, path) if path in ("play.css", "play.js") else None

    def post(self, path: str, body: bytes) -> Page | None:
        """Take a reply, {"key": the turn's, "text": word for word}; 409 where its turn is over."""
        if path != "reply":
            return None
        try:
            given = parse_json(body)
            key, text = given["key"], given["text"]
        except (ValueError, KeyError, TypeError):
            return _json({"error": "A reply is {key, text}."}, 400)
        if not (isinstance(key, str) and isinstance(text, str)):
            return _json({"error": "A reply is {key, text}."}, 400)
        if not self.desk.answer(key, text):
            told = (
                "This turn was answered already, perhaps in another window; here is the next one."
            )
            return _json({"error": told}, 409)
        return _json({})

    def _page(self) -> str:
        waiting = self.desk.first()
        standing = self.desk.standing()
        given: dict[str, Any] = {
            "name": "play",
            "stamps": [],
            "notes": [],
            "root": "",
            "token": self.token,
            "standing": standing,
            "total": len(self.questions),
            "player": self.name,
        }
        if waiting is None or standing.over:
            return _filled("wait.html", given)
        question = self.questions[waiting.request.question_id]
        given |= {
            "key": waiting.key,
            "dialogue": dialogue_of(waiting.request, question),
            "choices": letters(question.options),
            "kinds": self.kinds,
            "max_turns": self.max_turns,
        }
        return _filled("play.html", given)

    def _picture(self, key: str, place: int) -> Page | None:
        waiting: Waiting | None = self.desk.first()
        if waiting is None or waiting.key != key:
            return None
        image = picture_at(waiting.request, place)
        if image is None:
            return None
        return Page(encode(np.asarray(image.convert("RGB"))), KINDS[".png"])


def _filled(template: str, given: Mapping[str, Any]) -> str:
    return str(environment("engines/human").get_template(template).render(**given))


def _json(data: object, status: int = 200) -> Page:
    return Page(json.dumps(data).encode(), JSON, status)
