"""The messages sent to the model: fixed instructions, the question, then feedback and views for each turn.

The messages of a question are append-only and never contain the ground truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from render_agent.dialogue.answer import answer_form, canonical_answer
from render_agent.dialogue.chat import (
    Message,
    Piece,
    View,
    image_piece,
    message,
    text,
    without_thinking,
)
from render_agent.dialogue.question import TARGET, Question
from render_agent.dialogue.reply import Action, FinishReason, Malformed, Mode, ReplyForm
from render_agent.dialogue.reply_protocol import JsonProtocol, ReplyProtocol
from render_agent.dialogue.wording import Wording, general
from render_agent.options import VIEW_TYPES
from render_agent.scans.camera import Camera, MapCamera, Vector


@dataclass(frozen=True)
class Prompt:
    """Builds the messages of a run; the instructions are the same for all its questions."""

    max_turns: int  # turns per question
    field_of_view: float  # horizontal field of view in degrees
    kinds: tuple[str, ...] = VIEW_TYPES
    """View types that the model may request; the first is the default. Empty if the model sees nothing. With
    `num_initial_views`, the types of the views shown with the question.
    """
    num_initial_views: int = 0
    """Number of predefined views shown with the question; 0 if the model chooses its views."""
    image_size: tuple[int, int] | None = None
    """Width and height in pixels of the views that replies may measure in; None if measuring is off."""
    graph: bool = False  # True if the model reads a scene graph instead of seeing images
    start: Vector | None = None  # requested start position in metres; None if not specified
    wording: Wording = field(default_factory=general)
    protocol: ReplyProtocol = field(default_factory=JsonProtocol)
    """How replies are requested and parsed."""
    tells_outcome: bool = True
    """True if the model is told what its moves did and where it is after them."""
    image_turns: int | None = None
    """Number of most recent turns whose images stay in the prompt; None for all."""
    warnings: tuple[str, ...] = ()
    """Instruments that the instructions say can be wrong: keys of the wording's section `unreliable`."""
    asks_confidence: bool = False
    """True if replies state the confidence in their answer."""

    @property
    def mode(self) -> Mode:
        """Who chooses the views, or what replaces them."""
        if self.graph or not self.kinds:
            return "graph" if self.graph else "blind"
        return "passive" if self.num_initial_views else "free"

    @property
    def requestable_kinds(self) -> tuple[str, ...]:
        """The view types that a reply may request; if empty, replies cannot request moves either."""
        return self.kinds if self.mode == "free" else ()

    @cached_property
    def form(self) -> ReplyForm:
        """The fields that replies may contain."""
        return ReplyForm(
            self.mode, self.requestable_kinds, self.image_size, self.wording, self.asks_confidence
        )

    def schema(self, question: Question | None = None) -> Mapping[str, Any] | None:
        """Return the JSON schema of a reply to a question, or to any; None if replies are not JSON."""
        return self.protocol.schema(self.form, question)

    def tools(self, question: Question | None = None) -> Sequence[Mapping[str, Any]] | None:
        """Return the tools that replies to a question, or to any, may call; None if replies are plain text."""
        return self.protocol.tools(self.form, question)

    def parse_reply(self, reply: str, question: Question) -> Action | Malformed:
        """Parse a reply to a question; return `Malformed` if that fails."""
        return self.protocol.read(reply, question, self.form)

    @property
    def instructions(self) -> str:
        """The system message of every dialogue."""
        say = self.wording
        key = "instructions.one_turn" if self.max_turns == 1 else "instructions.turns"
        turns = say(key, turns=self.max_turns)
        warnings = (say(f"unreliable.{name}") for name in self.warnings)
        form = "\n\n".join([self.protocol.instructions(self.form), *warnings])
        if not self.kinds or self.graph:
            return say(f"instructions.{self.mode}", turns=turns, form=form)
        has_map = "top" in self.kinds
        axes = say("instructions.map_axes") if has_map else ""
        camera = say("instructions.camera", field=f"{self.field_of_view:g}", axes=axes)
        if self.num_initial_views:
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
        if self.num_initial_views > 1:
            advice.append(say("instructions.passive_advice", advice=say("instructions.advice")))
        if "top" in self.kinds:
            advice.append(say("instructions.passive_map_advice"))
        return "\n\n" + " ".join(advice) if advice else ""

    def opening(
        self,
        question: Question,
        views: Sequence[View],  # the first views
        camera: Camera,
        description: str = "",
    ) -> list[Message]:
        """Return the messages of turn 0: instructions, any text of the scene (a shared prefix), then the question with
        the views.
        """
        say = self.wording
        lines = [*([f"{description}\n"] if description else []), question.text]
        if question.options:
            lines += [say("question.options"), *question.options]
        form = answer_form(question.answer_form, question.options, say, question.unit)
        names_unit = question.answer_form == "number" and form == say("question.number")
        lines.append(say("question.answer_number" if names_unit else "question.answer", form=form))
        status = [self._turn_status(0, camera)]
        if self.requestable_kinds and self.start is not None and not question.has_own_start:
            status += start_note(self.start, camera, say)
        question_piece = text("\n".join(lines) + "\n\n" + " ".join(status))
        return [
            message("system", text(self.instructions)),
            message("user", question_piece, *self._view_pieces(views), *self._last_turn_notice(0)),
        ]

    def following(
        self, turn: int, feedback: str, views: Sequence[View], camera: Camera, reply: str = ""
    ) -> list[Message]:
        """Return the messages of a later turn: feedback on the last reply, and the requested views."""
        feedback_piece = text(f"{feedback}\n\n{self._turn_status(turn, camera)}".lstrip())
        view_pieces = self._view_pieces(views, with_pose=len(views) > 1)
        pieces = [*view_pieces, *self._last_turn_notice(turn)]
        return self.protocol.feedback_messages(reply, turn - 1, feedback_piece, pieces, self.form)

    def restating(self, turn: int, feedback: str, reply: str, question: Question) -> list[Message]:
        """Return the messages after the last turn's reply that request only the answer."""
        request = self.wording(f"restate.{question.answer_form}")
        piece = text(f"{feedback} {request}".lstrip())
        return self.protocol.feedback_messages(reply, turn, piece, [], self.form)

    def parse_restated(
        self, reply: str, question: Question, finish_reason: FinishReason
    ) -> Action | Malformed:
        """Parse the reply to `restating`, which need not be in the form of the protocol: the answer alone is valid."""
        action = self.parse_reply(reply, question)
        if isinstance(action, Action) or finish_reason == "length":
            return action
        bare = without_thinking(reply).strip()
        # A text that could be a damaged reply in the protocol's form is no answer.
        answer = (
            None
            if set("{<") & set(bare)
            else canonical_answer(bare, question.answer_form, question.options, question.unit)
        )
        return action if answer is None else Action(answer=answer, answer_text=bare)

    def window(self, messages: Sequence[Message]) -> list[Message]:
        """Return a dialogue that keeps the images of its last `image_turns` turns and of its target, and replaces others
        with a placeholder.
        """
        if self.image_turns is None:
            return list(messages)
        placeholder = text(self.wording("turn.omitted"))
        target = text(self.wording("turn.view_target", number=0))
        num_replies = sum(entry["role"] == "assistant" for entry in messages)
        result, turn = [], 0
        for entry in messages:
            if turn <= num_replies - self.image_turns:
                content = entry["content"]
                pieces = [
                    placeholder if piece["type"] == "image" and before != target else piece
                    for before, piece in zip([None, *content], content, strict=False)
                ]
                entry = {**entry, "content": pieces}
            result.append(entry)
            turn += entry["role"] == "assistant"
        return result

    def _turn_status(self, turn: int, camera: Camera) -> str:
        number = self.wording("turn.number", turn=turn + 1, turns=self.max_turns)
        if not self.requestable_kinds or (turn and not self.tells_outcome):
            return number
        return f"{number} {self.wording('turn.stands', pose=self._pose(camera))}"

    def _view_pieces(self, views: Sequence[View], *, with_pose: bool = False) -> list[Piece]:
        """Return a caption and an image for each view; captions of maps include the cut height."""
        pieces = []
        for view in views:
            key, values = "turn.view", {}
            if (self.num_initial_views or with_pose) and isinstance(view.camera, Camera):
                key, values = "turn.view_posed", {"pose": self._pose(view.camera)}
            elif view.kind == TARGET:
                key = "turn.view_target"
            elif isinstance(view.camera, MapCamera):
                key, values = "turn.view_map", {"height": f"{view.camera.height:.2f}"}
            caption = self.wording(key, number=view.number, kind=view.kind, **values)
            pieces += [text(caption), image_piece(view.file)]
        return pieces

    def _last_turn_notice(self, turn: int) -> list[Piece]:
        return [] if turn + 1 < self.max_turns else [text(self.wording("turn.last"))]

    def _pose(self, camera: Camera) -> str:
        x, y, z = (f"{value:.2f}" for value in camera.position)
        return self.wording(
            "turn.pose", x=x, y=y, z=z, yaw=f"{camera.yaw:.0f}", pitch=f"{camera.pitch:.0f}"
        )


def start_note(
    position: Vector,  # requested start position, (3,) metres, world frame
    camera: Camera,
    wording: Wording,
) -> list[str]:
    """Return a note if the camera could not start at the requested position; otherwise nothing."""
    distance = math.dist(position, camera.position)
    if distance < 0.005:
        return []
    x, y, z = (f"{value:.2f}" for value in position)
    return [wording("turn.start_moved", x=x, y=y, z=z, metres=f"{distance:.2f}")]
