"""What the model is told: fixed instructions, the question, then views and replies as they came.

Messages of a question are only ever appended. The truth is never among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from render_agent.dialogue.answer import answer_form
from render_agent.dialogue.chat import Message, Piece, message, picture, text
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import KINDS, Action, Malformed, Mode, ReplyForm
from render_agent.dialogue.reply_protocol import JsonProtocol, ReplyProtocol
from render_agent.dialogue.view import View
from render_agent.dialogue.wording import Wording, general
from render_agent.scans.camera import Camera, MapCamera, Vector


@dataclass(frozen=True, slots=True)
class Prompt:
    """How the dialogue is worded in one run; the instructions are the same for all its questions.

    field_of_view: horizontal, degrees. kinds: the kinds of view that may be asked for; the first is
    shown where nothing else is asked for. Without any the model is told that nothing is shown.
    at_once: how many views are shown with the question, none of which the model chooses; 0 where it does.
    Then kinds are those of these views. picture_size: width and height in pixels of the views in which a reply
    may ask for measurements, None where it may not. graph: whether the scene graph is told, and nothing shown.
    start: where dialogues were asked to begin, metres; None where no place was named. wording: its sentences.
    protocol: how replies are asked for and read.
    """

    max_turns: int
    field_of_view: float
    kinds: tuple[str, ...] = KINDS
    at_once: int = 0
    picture_size: tuple[int, int] | None = None
    graph: bool = False
    start: Vector | None = None
    wording: Wording = field(default_factory=general)
    protocol: ReplyProtocol = field(default_factory=JsonProtocol)

    @property
    def mode(self) -> Mode:
        """Who chooses the views."""
        if self.graph or not self.kinds:
            return "graph" if self.graph else "blind"
        return "passive" if self.at_once else "free"

    @property
    def on_request(self) -> tuple[str, ...]:
        """The kinds of view that a reply may ask for; without any it has no moves either."""
        return self.kinds if self.mode == "free" else ()

    @property
    def form(self) -> ReplyForm:
        """What a reply may contain."""
        return ReplyForm(self.mode, self.on_request, self.picture_size, self.wording)

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """The JSON schema of a reply, for engines that can hold a model to it; None if replies are not JSON."""
        return self.protocol.schema(self.form)

    def read(self, reply: str, question: Question) -> Action | Malformed:
        """Parse a reply to a question."""
        return self.protocol.read(reply, question, self.form)

    @property
    def instructions(self) -> str:
        """The fixed text that every dialogue begins with."""
        say = self.wording
        key = "instructions.one_turn" if self.max_turns == 1 else "instructions.turns"
        turns = say(key, turns=self.max_turns)
        form = self.protocol.instructions(self.form)
        if not self.kinds or self.graph:
            return say(f"instructions.{self.mode}", turns=turns, form=form)
        has_map = "top" in self.kinds
        axes = say("instructions.map_axes") if has_map else ""
        camera = say("instructions.camera", field=f"{self.field_of_view:g}", axes=axes)
        if self.at_once:
            kinds, advice = [*map(self._kind, self.kinds)], self._passive_advice()
        else:
            first, *others = self.kinds
            kinds = [self._kind(first, "default_kind"), *map(self._kind, others)]
            advice = say("instructions.advice")
            advice += f" {say('instructions.map_advice')}" if has_map else ""
        return say(
            f"instructions.{self.mode}",
            turns=turns,
            camera=camera,
            kinds="\n".join(kinds),
            form=form,
            advice=advice,
        )

    def _kind(self, kind: str, key: str = "kind") -> str:
        return self.wording(
            f"instructions.{key}", kind=kind, shows=self.wording(f"instructions.{kind}")
        )

    def _passive_advice(self) -> str:
        say, advice = self.wording, []
        if self.at_once > 1:
            advice.append(say("instructions.passive_advice", advice=say("instructions.advice")))
        if "top" in self.kinds:
            advice.append(say("instructions.passive_map_advice"))
        return "\n\n" + " ".join(advice) if advice else ""

    def opening(
        self, question: Question, views: Sequence[View], camera: Camera, told: str = ""
    ) -> list[Message]:
        """Return the messages of turn 0: the instructions, then the question with the first views.

        told: what is told of the scene in the place of views; it comes first, as all its questions share it.
        """
        say = self.wording
        lines = [*([f"{told}\n"] if told else []), question.text]
        if question.options:
            lines += [say("question.options"), *question.options]
        form = answer_form(question.wanted, question.options, say)
        key = "question.answer_number" if question.wanted == "number" else "question.answer"
        lines.append(say(key, form=form))
        standing = [self._standing(0, camera)]
        if self.on_request and self.start is not None and not question.begins_apart:
            standing += start_note(self.start, camera, say)
        first = text("\n".join(lines) + "\n\n" + " ".join(standing))
        return [
            message("system", text(self.instructions)),
            message("user", first, *self._view_pieces(views), *self._last_call(0)),
        ]

    def following(
        self, turn: int, feedback: str, views: Sequence[View], camera: Camera
    ) -> list[Message]:
        """Return the message of a later turn: what the last reply led to, and the views it asked for."""
        first = text(f"{feedback}\n\n{self._standing(turn, camera)}")
        shown = self._view_pieces(views, posed=len(views) > 1)
        return [message("user", first, *shown, *self._last_call(turn))]

    def _standing(self, turn: int, camera: Camera) -> str:
        number = self.wording("turn.number", turn=turn + 1, turns=self.max_turns)
        if not self.on_request:
            return number
        return f"{number} {self.wording('turn.stands', pose=self._pose(camera))}"

    def _view_pieces(self, views: Sequence[View], *, posed: bool = False) -> list[Piece]:
        """Return the views, maps with the height at which they are cut; posed: with where each was taken."""
        pieces = []
        for view in views:
            key, taken = "turn.view", {}
            if (self.at_once or posed) and isinstance(view.camera, Camera):
                key, taken = "turn.view_posed", {"pose": self._pose(view.camera)}
            elif isinstance(view.camera, MapCamera):
                key, taken = "turn.view_map", {"height": f"{view.camera.height:.2f}"}
            caption = self.wording(key, number=view.number, kind=view.kind, **taken)
            pieces += [text(caption), picture(view.file)]
        return pieces

    def _last_call(self, turn: int) -> list[Piece]:
        return [] if turn + 1 < self.max_turns else [text(self.wording("turn.last"))]

    def _pose(self, camera: Camera) -> str:
        x, y, z = (f"{value:.2f}" for value in camera.position)
        return self.wording(
            "turn.pose", x=x, y=y, z=z, yaw=f"{camera.yaw:.0f}", pitch=f"{camera.pitch:.0f}"
        )


def start_note(wanted: Vector, camera: Camera, wording: Wording) -> list[str]:
    """Return a sentence where a dialogue begins elsewhere than at `wanted`, (3,) metres; else nothing."""
    away = math.dist(wanted, camera.position)
    if away < 0.005:
        return []
    x, y, z = (f"{value:.2f}" for value in wanted)
    return [wording("turn.start_moved", x=x, y=y, z=z, metres=f"{away:.2f}")]
