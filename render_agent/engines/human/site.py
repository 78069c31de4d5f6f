"""The page on which a person takes the model's turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route, Router
from starlette.types import Receive, Scope, Send

from render_agent.dialogue.answer import letters
from render_agent.dialogue.state import Question
from render_agent.engines.human.page_content import page_content, picture_at
from render_agent.engines.human.session import HumanSession, PendingRequest
from render_agent.render.png import encode
from render_agent.text.safe_parse import parse_json
from render_agent.web.checks import PageFiles, picture_response
from render_agent.web.templates import ASSETS, environment

OWN = Path(__file__).parent / "templates"
"""Where the style and script of this page lie, beside its template."""


class PlaySite:
    """Shows the first request of a session and takes what the person replies.

    kinds: the kinds of view that may be asked for; without any a reply has no moves. name: who plays.
    """

    def __init__(
        self,
        session: HumanSession,
        questions: Sequence[Question],
        kinds: Sequence[str],
        max_turns: int,
        name: str,
        token: str,
    ) -> None:
        self.session = session
        self.questions: Mapping[str, Question] = {question.id: question for question in questions}
        self.kinds = tuple(kinds)
        self.max_turns = max_turns
        self.name = name
        self.token = token
        self._finished: Router | None = None
        self._page_of: Callable[[str], str | None] | None = None

    def offer(self, routes: Sequence[BaseRoute], page_of: Callable[[str], str | None]) -> None:
        """Serve the pages of finished questions, too; page_of: where that of an id lies, if it may be seen."""
        self._finished = Router([*routes, Mount("/", PageFiles(OWN, ".css", ".js"))])
        self._page_of = page_of

    def routes(self) -> list[BaseRoute]:
        """Return the page, where the sitting stands, the pictures of the dialogue, and where replies go."""
        return [
            Route("/", self._shown),
            Route("/state", lambda request: JSONResponse(asdict(self.session.standing()))),
            Route("/picture/{key}/{place:int}.png", self._picture),
            Route("/reply", self._reply, methods=["POST"]),
            Mount("/assets", PageFiles(ASSETS, ".css", ".js", ".svg")),
            Mount("/", self._beside),
        ]

    async def _beside(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the style and script of the page, or with a page of a finished question."""
        site = self._finished or PageFiles(OWN, ".css", ".js")
        await site(scope, receive, send)

    def _shown(self, request: Request) -> Response:
        page = HTMLResponse(self._page())
        if self.session.standing().over:
            self.session.known()
        return page

    async def _reply(self, request: Request) -> Response:
        """Take a reply, {"key": the turn's, "text": word for word}; 409 where its turn is over."""
        try:
            body = parse_json(await request.body())
            key, text = body["key"], body["text"]
        except (ValueError, KeyError, TypeError):
            key = text = None
        if not (isinstance(key, str) and isinstance(text, str)):
            return JSONResponse({"error": "A reply is {key, text}."}, 400)
        if not self.session.answer(key, text):
            message = (
                "This turn was answered already, perhaps in another window; here is the next one."
            )
            return JSONResponse({"error": message}, 409)
        return JSONResponse({})

    def _page(self) -> str:
        waiting = self.session.first()
        standing = self.session.standing()
        values: dict[str, Any] = {
            "name": "play",
            "stamps": [],
            "notes": [],
            "root": "",
            "token": self.token,
            "standing": standing,
            "total": len(self.questions),
            "player": self.name,
            "finished": self._page_of(standing.last) if self._page_of and standing.last else None,
        }
        if waiting is None or standing.over:
            return _filled("wait.html", values)
        question = self.questions[waiting.request.question_id]
        values |= {
            "key": waiting.key,
            "dialogue": page_content(waiting.request, question),
            "choices": letters(question.options),
            "kinds": self.kinds,
            "max_turns": self.max_turns,
        }
        return _filled("play.html", values)

    def _picture(self, request: Request) -> Response:
        waiting: PendingRequest | None = self.session.first()
        if waiting is None or waiting.key != request.path_params["key"]:
            raise HTTPException(404)
        image = picture_at(waiting.request, request.path_params["place"])
        if image is None:
            raise HTTPException(404)
        return picture_response(encode(np.asarray(image.convert("RGB"))))


def _filled(template: str, values: Mapping[str, Any]) -> str:
    return str(environment("engines/human").get_template(template).render(**values))
