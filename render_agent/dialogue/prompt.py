"""What the model is told: fixed instructions, the question, then views and replies as they came.

Messages of a question are only ever appended. The truth is never among them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.dialogue.answer import answer_form
from render_agent.dialogue.chat import Message, Piece, message, picture, text
from render_agent.dialogue.reply import KINDS, MAX_PLACES, object_schema
from render_agent.dialogue.state import Question, View
from render_agent.geometry.camera import Camera, MapCamera, Vector

MAX_COORDINATE = 100_000
"""No picture has so many pixels across."""

SHOWN = {
    "ego": "what your camera sees ahead",
    "top": "a map: the place from above without its ceiling, with a grid in metres, your position, heading and path",
    "around": "four directions in one picture: ahead, left, behind and right",
}
"""What each kind of view shows."""

MAP_AXES = ", as on the axes of the map"
MAP_ADVICE = " Read sizes and distances off the map's grid, and check them from where you stand."
GRID_ADVICE = " Read sizes and distances off the map's grid."

CAMERA = """\
Camera: it begins at about the height of a person's eyes and sees {field:g} degrees from left to right. \
Plain light grey is where nothing was scanned. Positions are [x, y, z] in metres, z up{axes}. Yaw is in \
degrees: 0 looks along +x, 90 along +y, counter-clockwise seen from above. Pitch is in degrees, \
positive looks up."""

MEASURE_KEY = """
 "measure": null,"""
MEASURE = """
- measure: null, or a list of 1 to {places} places to measure exactly, each {{"view": number, "x": column, "y": row}} \
for a pixel of a view that you were shown (its size is {width}x{height}), [x, y] in metres for what the map shows \
there, or [x, y, z] for a point of the room. \
You are told where each place is and which object it is on; the metres from the first place to every other; and from \
the third place on the angle at the first, seen from above, from the second to this one. A measurement takes a turn, \
and where you ask for nothing else no new view is shown."""

ADVICE = """\
objects hide behind others, and one view seldom shows all that a question \
is about. Do not count an object twice that you see in two views."""

INSTRUCTIONS = """\
You explore the 3D scan of a place through a camera, to answer one question about it. Every turn you \
are shown one or more views and reply with your next step; then you are told what it led to and shown \
the next view. You have {turns}.

{camera}

Views that you can ask for:
{kinds}
- a number: that earlier view once more; views are numbered from 0. It does not move your camera.

Reply with one JSON object and nothing else:
{{"reasoning": "what you see, what follows from it, what you still need to know",
 "rotation_angle_degrees": 0, "pitch_degrees": 0,
 "forward_meters": 0, "left_meters": 0, "z_delta_meters": 0,
 "look_at": null, "view": "{default}",{measure_key} "answer": null, "done": false}}

- rotation_angle_degrees: turn first; positive turns left, negative right; at most 180 a turn.
- pitch_degrees: tilt; positive tilts up, negative down; pitch stays within 60 up and 60 down.
- forward_meters, left_meters, z_delta_meters: then move, in the new heading; negative moves back, \
right, down; at most 2 a turn each. The camera keeps 0.2 m away from walls and furniture: they stop \
it, and you are told how far it came.
- look_at: a point [x, y, z] to turn to, in place of rotation and pitch; otherwise null.
- view: what to show you next.{measure}
- answer: your answer so far, in the form that the question asks for; null while you have none.
- done: true once you are sure of your answer; this ends the exploration, and no move is made.
Leave out fields that you do not need.

Explore before you answer: {advice}"""


PASSIVE_INSTRUCTIONS = """\
You are shown the 3D scan of a place as a camera sees it, to answer one question about it. All that you \
are shown comes with the question: answer in your first reply; where it cannot be read you are told so \
and asked again. You have {turns}.

{camera}

What you are shown:
{kinds}

Reply with one JSON object and nothing else:
{{"reasoning": "what you see, and what follows from it", "answer": "your answer", "done": true}}

- answer: your answer, in the form that the question asks for.
- done: true with your answer; this ends the dialogue.{advice}"""


ANSWER_ALONE = """
Reply with one JSON object and nothing else:
{{"reasoning": "what follows from {source}", "answer": null, "done": false}}

- answer: your answer so far, in the form that the question asks for; null while you have none.
- done: true once your answer stands; this ends the dialogue."""

BLIND_INSTRUCTIONS = """\
You answer one question about a place that you are not shown: there are no pictures of it. Answer from \
the question itself and from what such places are like. You have {turns}.
"""


GRAPH_INSTRUCTIONS = """\
You answer one question about a place of which you are given the true scene graph, as text: its objects, each with its \
category, the centre [x, y, z] of its box in metres, z up, and the size of that box in metres, along its own two \
level axes and upright; yaw is the direction of the first of these axes in degrees, 0 along +x, 90 along +y, \
counter-clockwise seen from above. There are no pictures. You have {turns}.
"""


@dataclass(frozen=True, slots=True)
class Prompt:
    """How the dialogue is worded in one run; the instructions are the same for all its questions.

    field_of_view: horizontal, degrees. kinds: the kinds of view that may be asked for; the first is
    shown where nothing else is asked for. Without any the model is told that nothing is shown.
    at_once: how many views are shown with the question, none of which the model chooses; 0 where it does.
    Then kinds are those of these views. picture_size: width and height in pixels of the views in which a reply
    may ask for measurements, None where it may not. graph: whether the scene graph is told, and nothing shown.
    start: where dialogues were asked to begin, metres; None where no place was named.
    """

    max_turns: int
    field_of_view: float
    kinds: tuple[str, ...] = KINDS
    at_once: int = 0
    picture_size: tuple[int, int] | None = None
    graph: bool = False
    start: Vector | None = None

    @property
    def measures(self) -> bool:
        """Whether a reply may ask for measurements."""
        return self.picture_size is not None

    @property
    def on_request(self) -> tuple[str, ...]:
        """The kinds of view that a reply may ask for; without any it has no moves either."""
        return () if self.at_once else self.kinds

    @property
    def instructions(self) -> str:
        """The fixed text that every dialogue begins with."""
        turns = f"at most {self.max_turns} turns, and must answer by the last"
        if self.max_turns == 1:
            turns = "one turn, in which you must answer"
        if self.graph:
            return (GRAPH_INSTRUCTIONS + ANSWER_ALONE).format(turns=turns, source="the scene graph")
        if not self.kinds:
            return (BLIND_INSTRUCTIONS + ANSWER_ALONE).format(turns=turns, source="the question")
        described = [f'- "{kind}": {SHOWN[kind]}' for kind in self.kinds]
        axes = MAP_AXES if "top" in self.kinds else ""
        camera = CAMERA.format(field=self.field_of_view, axes=axes)
        if self.at_once:
            return PASSIVE_INSTRUCTIONS.format(
                turns=turns,
                camera=camera,
                kinds="\n".join(described),
                advice=self._passive_advice(),
            )
        described[0] += " (shown where you ask for nothing else)"
        width, height = self.picture_size or (0, 0)
        measure = MEASURE.format(places=MAX_PLACES, width=width, height=height)
        return INSTRUCTIONS.format(
            measure=measure if self.measures else "",
            measure_key=MEASURE_KEY if self.measures else "",
            turns=turns,
            camera=camera,
            kinds="\n".join(described),
            default=self.kinds[0],
            advice=ADVICE + (MAP_ADVICE if "top" in self.kinds else ""),
        )

    def _passive_advice(self) -> str:
        advice = f"\n\nLook at all of it before you answer: {ADVICE}" if self.at_once > 1 else ""
        if "top" not in self.kinds:
            return advice
        return advice + GRID_ADVICE if advice else f"\n\n{GRID_ADVICE.strip()}"

    def opening(
        self, question: Question, views: Sequence[View], camera: Camera, told: str = ""
    ) -> list[Message]:
        """Return the messages of turn 0: the instructions, then the question with the first views.

        told: what is told of the scene in the place of views; it comes first, as all its questions share it.
        """
        lines = [*([f"{told}\n"] if told else []), question.text]
        if question.options:
            lines += ["Options:", *question.options]
        unit = ", in the unit that the question names" if question.wanted == "number" else ""
        lines.append(f"Your answer must be {answer_form(question.wanted, question.options)}{unit}.")
        standing = [self._standing(0, camera)]
        if self.on_request and self.start is not None and not question.begins_apart:
            standing += start_note(self.start, camera)
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
        number = f"Turn {turn + 1} of {self.max_turns}."
        if not self.on_request:
            return number
        return f"{number} You stand at {_pose(camera)}."

    def _view_pieces(self, views: Sequence[View], *, posed: bool = False) -> list[Piece]:
        """Return the views, maps with the height at which they are cut; posed: with where each was taken."""
        pieces = []
        for view in views:
            taken = ""
            if (self.at_once or posed) and isinstance(view.camera, Camera):
                taken = f", from {_pose(view.camera)}"
            elif isinstance(view.camera, MapCamera):
                taken = f", cut at z = {view.camera.height:.2f} m"
            pieces += [text(f"View {view.number} ({view.kind}){taken}:"), picture(view.file)]
        return pieces

    def _last_call(self, turn: int) -> list[Piece]:
        if turn + 1 < self.max_turns:
            return []
        return [text("This is your last turn: give your best answer now, with done true.")]


def start_note(wanted: Vector, camera: Camera) -> list[str]:
    """Return a sentence where a dialogue begins elsewhere than at `wanted`, (3,) metres; else nothing."""
    away = math.dist(wanted, camera.position)
    if away < 0.005:
        return []
    x, y, z = wanted
    return [
        f"The start that was asked for, [{x:.2f}, {y:.2f}, {z:.2f}], is not free or lies outside the scan: the"
        f" camera begins {away:.2f} m from it."
    ]


def _pose(camera: Camera) -> str:
    x, y, z = camera.position
    return f"[{x:.2f}, {y:.2f}, {z:.2f}], yaw {camera.yaw:.0f}, pitch {camera.pitch:.0f}"


def reply_schema(kinds: Sequence[str], *, measures: bool = False) -> Mapping[str, Any]:
    """Return the JSON schema of a reply, for engines that can hold a model to it.

    kinds: those that may be asked for; without any a reply has no moves. measures: whether it may ask for
    measurements.
    """

    def number(limit: float) -> dict[str, Any]:
        return {"type": "number", "minimum": -limit, "maximum": limit}

    moves = {
        "rotation_angle_degrees": number(180),
        "pitch_degrees": number(120),
        "forward_meters": number(2),
        "left_meters": number(2),
        "z_delta_meters": number(2),
        "look_at": {
            "anyOf": [
                {"type": "array", "items": number(1000), "minItems": 3, "maxItems": 3},
                {"type": "null"},
            ]
        },
        "view": {
            "anyOf": [
                {"enum": [*kinds, None]},
                {"type": "integer", "minimum": 0, "maximum": 999},
            ]
        },
    }
    pixel = object_schema(
        {
            "view": {"type": "integer", "minimum": 0, "maximum": 999},
            "x": number(MAX_COORDINATE),
            "y": number(MAX_COORDINATE),
        }
    )
    point = {"type": "array", "items": number(1000), "minItems": 2, "maxItems": 3}
    places = {
        "type": "array",
        "items": {"anyOf": [pixel, point]},
        "minItems": 1,
        "maxItems": MAX_PLACES,
    }
    measure = {"measure": {"anyOf": [places, {"type": "null"}]}}
    properties = {
        "reasoning": {"type": "string"},
        **(moves if kinds else {}),
        **(measure if measures else {}),
        "answer": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "null"}]},
        "done": {"type": "boolean"},
    }
    return object_schema(properties, ("reasoning", "answer", "done"))
