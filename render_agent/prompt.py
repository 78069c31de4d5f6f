"""What the model is told: fixed instructions, the question, then views and replies as they came.

Messages of a question are only ever appended. The truth is never among them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.answer import asked_for
from render_agent.camera import Camera
from render_agent.chat import Message, Piece, message, picture, text
from render_agent.state import Question, View

KIND_TEXTS = {
    "ego": '"ego" is what your camera sees (the default)',
    "top": '"top" is a map: the room from above without its ceiling, with a grid in metres, your'
    " position and your path",
    "around": '"around" shows four directions in one picture: ahead, left, behind and right',
}

INSTRUCTIONS = """\
You explore the 3D scan of a place through a camera, and answer one question about it. Every turn you \
are shown one or more views; then you say what to do next, and the result is shown to you. You have {turns}.

The camera: it stands about as high as a person's eyes and looks {field:.0f} degrees wide. Plain light \
grey is where nothing was scanned. Positions are [x, y, z] in metres, z up, as on the map's axes; yaw is \
in degrees, 0 along +x, counter-clockwise seen from above (90 along +y); pitch is positive upwards.

Views: {kinds}. Views are numbered from 0; asking for the number of an earlier view shows it again.

Reply with one JSON object and nothing else:
{{"reasoning": "what you see, what you conclude, what you still need to know",
 "rotation_angle_degrees": 0, "pitch_degrees": 0,
 "forward_meters": 0, "left_meters": 0, "z_delta_meters": 0,
 "look_at": null, "view": "ego", "answer": null, "done": false}}

- rotation_angle_degrees: turn first, positive to the left (counter-clockwise), at most 180 a turn; \
pitch_degrees: tilt, positive upwards, up to 60 degrees above or below the horizon in all.
- forward_meters, left_meters, z_delta_meters: then move in the new heading; negative is backwards, to \
the right, downwards; at most 2 m each a turn. Walls and furniture stop you, and you are told.
- look_at: instead of turning by an angle, look towards the point [x, y, z].
- view: which view to show next.
- answer: your answer so far, in the form the question asks for. You may give it before you are done.
- done: true when you are sure of the answer. With done true no further move is made.
Fields that you do not need may be left out. Look around before you answer: objects hide behind others, \
and one view seldom shows all that a question asks about."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """How the dialogue is worded in one run; the instructions are the same for all its questions.

    field_of_view: horizontal, degrees. kinds: the kinds of view that may be asked for.
    """

    max_turns: int
    field_of_view: float
    kinds: tuple[str, ...] = ("ego", "top", "around")

    @property
    def instructions(self) -> str:
        """The fixed text that every dialogue begins with."""
        turns = "one turn" if self.max_turns == 1 else f"at most {self.max_turns} turns"
        kinds = "; ".join(KIND_TEXTS[kind] for kind in self.kinds)
        return INSTRUCTIONS.format(turns=turns, field=self.field_of_view, kinds=kinds)

    def opening(self, question: Question, views: Sequence[View], camera: Camera) -> list[Message]:
        """Return the messages of turn 0: the instructions, then the question with the first views."""
        asked = [question.text]
        if question.options:
            asked += ["Options:", *question.options]
        asked.append(f"Your answer must be {asked_for(question.wanted, question.options)}.")
        first = text("\n".join(asked) + "\n\n" + self._standing(0, camera))
        return [
            message("system", text(self.instructions)),
            message("user", first, *self._shown(views), *self._last_call(0)),
        ]

    def following(
        self, turn: int, happened: str, views: Sequence[View], camera: Camera
    ) -> list[Message]:
        """Return the message of a later turn: what the last reply led to, and the views it asked for."""
        first = text(f"{happened}\n\n{self._standing(turn, camera)}")
        return [message("user", first, *self._shown(views), *self._last_call(turn))]

    def _standing(self, turn: int, camera: Camera) -> str:
        x, y, z = camera.position
        return (
            f"Turn {turn + 1} of {self.max_turns}. You stand at [{x:.2f}, {y:.2f}, {z:.2f}],"
            f" yaw {camera.yaw:.0f}, pitch {camera.pitch:.0f}."
        )

    def _shown(self, views: Sequence[View]) -> list[Piece]:
        pieces = []
        for view in views:
            pieces += [text(f"View {view.number} ({view.kind}):"), picture(view.file)]
        return pieces

    def _last_call(self, turn: int) -> list[Piece]:
        if turn + 1 < self.max_turns:
            return []
        return [text("This is your last turn: give your best answer now, with done true.")]


def reply_schema(kinds: Sequence[str]) -> Mapping[str, Any]:
    """Return the JSON schema of a reply, for engines that can hold a model to it."""

    def number(limit: float) -> dict[str, Any]:
        return {"type": "number", "minimum": -limit, "maximum": limit}

    return {
        "type": "object",
        "properties": {
            "reasoning": {"type": "string"},
            "rotation_angle_degrees": number(180),
            "pitch_degrees": number(120),
            "forward_meters": number(2),
            "left_meters": number(2),
            "z_delta_meters": number(2),
            "look_at": {
                "anyOf": [
                    {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3},
                    {"type": "null"},
                ]
            },
            "view": {"anyOf": [{"enum": [*kinds, None]}, {"type": "integer", "minimum": 0}]},
            "answer": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
            "done": {"type": "boolean"},
        },
        "required": ["reasoning", "answer", "done"],
        "additionalProperties": False,
    }
