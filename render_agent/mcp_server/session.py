"""A client's session: the questions of a run, one at a time, recorded in one run folder.

This module does not depend on MCP. A tool call is a reply of the tools protocol, so a session is equivalent to a run in
which an engine replies with the same calls.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from render_agent.dialogue.chat import Message
from render_agent.dialogue.parsing.tool_calls import call_text
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import object_schema
from render_agent.dialogue.state import Status
from render_agent.dialogue.turn import Failure
from render_agent.engines.engine import Reply
from render_agent.engines.sight_check import SightTest, sight_caveat
from render_agent.environments.episode import Episode
from render_agent.environments.recorder import Recording
from render_agent.environments.world import World
from render_agent.errors import RenderAgentError, RunLogError, UsageError
from render_agent.render.png import encode_png
from render_agent.runs.scheduler import step_fault
from render_agent.util.display import count_noun
from render_agent.util.reasons import short_repr
from render_agent.util.sanitize import redact_keys

logger = logging.getLogger(__name__)

SCHEME = "render-agent://"
SIGHT_URI = f"{SCHEME}sight-check.png"
SIGHT_TEXT = (
    "Sight check {nonce}: call start again, with the four digits in this image as code. If you see no image, read the"
    f" resource {SIGHT_URI}. If that shows none either, pass none as code."
)
MAX_LISTED = 20  # ids named in a result

# The map is a view that `look` requests; models expect a separate tool.
MAP, MAP_CALL = "map", ("look", {"view": "top"})

INSTRUCTIONS = (
    "Explore a 3D scan with a camera to answer a question about it. Call start first: it returns the instructions, the"
    " question and the first view. Then call one tool per turn, and finish with answer."
)
ENDINGS = {
    True: "The answer is recorded.",
    False: "No answer was given, which counts as a wrong answer.",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """An image in the result of a call."""

    uri: str
    png: bytes


Block = str | Picture


class Session:
    """The questions of one client, asked one at a time. Not thread-safe.

    The run folder is created when the first question starts. Questions and results are written at the end of the
    session, because they contain the ground truth.
    """

    def __init__(self, world: World, client: Mapping[str, Any]) -> None:
        self.world = world
        self.client = client
        self.log: Recording | None = None
        self._parts = world.parts
        has_check = world.config.sight_check != "off" and not self._parts.blind
        self._sight = SightTest(world.config.image_size) if has_check else None
        self._pending = {
            question.id: question
            for question in world.questions
            if question.scan is not None or self._parts.blind
        }
        self._has_several = len(self._pending) > 1
        # The question whose answers the tools accept while none is in progress.
        self._sole_question = (
            None if self._has_several else next(iter(self._pending.values()), None)
        )
        self._question: Question | None = None
        self._episode: Episode | None = None
        self._shown_at = 0.0
        self._files: dict[str, str] = {}
        self._over = self._closed = False

    @property
    def tools(self) -> list[dict[str, Any]]:
        """The tools that are possible in the run, with `name`, `description` and `parameters`."""
        prompt, form = self._parts.prompt, self._parts.prompt.form
        tools = prompt.tools(self._question if self._episode else self._sole_question) or ()
        declared = [tool["function"] for tool in tools]
        if "top" in form.kinds:
            description = f"Show {form.wording('instructions.top')}."
            map_tool = {"name": MAP, "description": description, "parameters": object_schema({})}
            declared.append(map_tool)
        start: dict[str, Any] = {}
        if self._has_several:
            start["id"] = {
                "type": "string",
                "description": "The question; by default the next one.",
            }
        if self._sight is not None:
            start["code"] = {"type": "string", "description": "The digits read in the sight check."}
        words = "Start a question: returns the instructions, the question and the first view."
        parameters = object_schema(start, required=())
        return [{"name": "start", "description": words, "parameters": parameters}, *declared]

    def call(self, name: str, arguments: Mapping[str, Any]) -> list[Block]:
        """Call a tool and return the result."""
        if self._over:
            raise UsageError("The session is over: no question is left.")
        if name == "start":
            return self._start(arguments)
        if self._episode is None:
            raise UsageError("No question is in progress. Call start.")
        call = MAP_CALL if name == MAP else (name, arguments)
        reply = Reply((call_text(*call),), seconds=time.perf_counter() - self._shown_at)
        return self._advance(self._episode, reply)

    @property
    def uris(self) -> list[str]:
        """The images shown so far."""
        return [*([] if self._sight_image is None else [SIGHT_URI]), *self._files]

    @property
    def _sight_image(self) -> Picture | None:
        """The image whose code is due in the sight check; None if the check is over."""
        if self._sight is None or self._sight.finding is not None:
            return None
        return Picture(SIGHT_URI, encode_png(np.asarray(self._sight.image)))

    def read(self, uri: str) -> bytes:
        """Return an image that was shown, as PNG. Raises KeyError if no image has this URI."""
        if uri == SIGHT_URI and (image := self._sight_image) is not None:
            return image.png
        return self._png(self._files[uri])

    def close(self) -> None:
        """End the session: a question in progress fails, and the run folder is completed and unlocked."""
        if self._closed:
            return
        self._over = self._closed = True
        if self._episode is not None:
            turns = count_noun(len(self._episode.state.turns), "turn")
            self._fail(f"the client disconnected after {turns}")
        if self.log is not None:
            self.log.close()

    def _start(self, arguments: Mapping[str, Any]) -> list[Block]:
        if self._sight is not None:
            if self._sight.finding is None and (code := arguments.get("code")) is not None:
                self._sight.take(str(code))
            if (image := self._sight_image) is not None:
                return [SIGHT_TEXT.format(nonce=self._sight.nonce), image]
            if self._sight.finding != "sighted" and self.world.config.sight_check == "require":
                raise UsageError(
                    "The code is wrong, and this server requires models to see images."
                )
        chosen = arguments.get("id")
        if self._episode is not None and self._question is not None:
            if chosen not in (None, self._question.id):
                raise UsageError(f"Question {self._question.id} is not over. Answer it first.")
            return self._repeat_messages(self._episode)
        self.log = self.log or self._record()
        question = self._question = self._next(chosen)
        try:
            self._episode, _ = self.world.start(question, self.log)
        except RenderAgentError as error:
            self._fail(str(error), error)
            raise
        del self._pending[question.id]
        about = (
            [f"Question {question.id}. After it: {self._format_remaining()}"]
            if self._has_several
            else []
        )
        names = ", ".join(tool["name"] for tool in self.tools if tool["name"] != "start")
        return [*about, f"Tools: {names}.", *self._to_blocks(self._episode.new_messages)]

    def _next(self, chosen: object) -> Question:
        if chosen is None:
            return next(iter(self._pending.values()))
        if (question := self._pending.get(str(chosen))) is None:
            raise UsageError(
                f"There is no question {short_repr(chosen)} left, but: {self._format_remaining()}"
            )
        return question

    def _repeat_messages(self, episode: Episode) -> list[Block]:
        """Return the opening and the newest messages of a question, for a client that lost them."""
        assert episode.request is not None, "the episode is not over"
        newest = episode.new_messages
        opening = episode.request.messages[:2] if episode.state.turns else []
        return self._to_blocks([*opening, *newest])

    def _advance(self, episode: Episode, reply: Reply) -> list[Block]:
        """Take a turn and return what the client sees next."""
        try:
            is_over = episode.answer(reply)
        except RunLogError:  # nothing can be recorded any more
            self._over, self._episode = True, None
            raise
        except Exception as error:
            # As in a run, any error of a turn ends its question only.
            fault = error if isinstance(error, RenderAgentError) else step_fault(error)
            self._fail(str(fault), fault)
            raise fault from error
        if not is_over:
            return self._to_blocks(episode.new_messages)
        self._episode = None
        ending = ENDINGS[episode.state.answer is not None]
        if episode.state.status is Status.EXHAUSTED:
            ending = f"That was the last turn. {ending}"
        return [f"{ending} {self._finish_question()}"]

    def _finish_question(self) -> str:
        """Return a sentence about the remaining questions; end the session if there are none."""
        if self._pending:
            return f"{self._format_remaining()} Call start for the next."
        self.close()
        return "No question is left: the session is over."

    def _format_remaining(self) -> str:
        if not self._pending:
            return "no question is left."
        ids = ", ".join([*self._pending][:MAX_LISTED])
        more = ", …" if len(self._pending) > MAX_LISTED else ""
        return f"{count_noun(len(self._pending), 'question')} left: {ids}{more}."

    def _fail(self, sentence: str, error: Exception | None = None) -> None:
        """Record that the current question failed."""
        question, episode = self._question, self._episode
        assert question is not None, "a question was chosen"
        self._pending.pop(question.id, None)
        self._episode = None
        sentence = redact_keys(sentence)
        logger.warning("question %s failed: %s", question.id, sentence, exc_info=error)
        assert self.log is not None, "questions start with a run folder"
        turn = 0 if episode is None else len(episode.state.turns)
        self.log.append(Failure(question.id, turn, self.world.phase_of(turn), sentence))
        if error is not None:
            self._finish_question()

    def _record(self) -> Recording:
        """Create the run folder."""
        client = self.client
        engine = {
            "name": self.world.config.engine,
            "model": self.world.config.model or client["name"],
            "client": dict(client),
        }
        extra: dict[str, Any] = {"questions_withheld": True}
        if self._sight is not None:
            extra["sight_checks"] = [self._sight.record]
            if caveat := sight_caveat(extra["sight_checks"]):
                logger.warning("session of %s: %s", client["name"], caveat)
        folder = Path(self.world.config.output)
        log = Recording.create(self._parts, self.world.questions, folder, engine, extra)
        log.asked = {question.id: question for question in self.world.questions}
        logger.info("session of %s: %s", client["name"], log.log.path)
        return log

    def _to_blocks(self, messages: Iterable[Message]) -> list[Block]:
        """Return the texts and images of messages."""
        self._shown_at = time.perf_counter()
        pieces = [piece for message in messages for piece in message["content"]]
        return [
            piece["text"] if piece["type"] == "text" else self._load_image(piece["image"])
            for piece in pieces
        ]

    def _load_image(self, file: str) -> Picture:
        uri = f"{SCHEME}{file}"
        self._files[uri] = file
        return Picture(uri, self._png(file))

    def _png(self, file: str) -> bytes:
        assert self.log is not None, "images are shown in questions"
        return encode_png(np.asarray(self.log.images.get(file)))
