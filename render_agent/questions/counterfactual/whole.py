"""`--change scale` and `rotate`: the whole room is larger or smaller, or turned about its middle."""

from __future__ import annotations

import math

import numpy as np

from render_agent.dialogue.state import Question
from render_agent.geometry.boxes import rotation
from render_agent.questions.counterfactual.base import ChangePlan, NoPair
from render_agent.questions.counterfactual.room import ChangeableRoom
from render_agent.scene.edits import Edit

SMALLEST, LARGEST = 0.5, 2.0
"""A room that is scaled more is none that one could stand in, or see to the end of."""


class WholeRoomPlan(ChangePlan):
    """A change of every point of the room alike, about the middle of its floor."""

    def edit(self, room: ChangeableRoom, degrees: float, factor: float) -> Edit:
        """Return a turn, degrees counter-clockwise, with a scale. NoPair where the scene cannot be so."""
        scene = room.scene
        if scene.gaussians is not None:
            raise NoPair("its scan is a splat")
        middle = np.array([*scene.bounds[:, :2].mean(0), scene.floor]) + scene.origin
        shift = middle - factor * rotation(degrees) @ middle
        return Edit("transform", degrees=degrees, factor=factor, shift=(float(shift[0]), float(shift[1]), float(shift[2])))  # fmt: skip


class Scale(WholeRoomPlan):
    """The room is scaled: what is measured scales with it; counts, directions and what is nearest stay."""

    name = "scale"
    forms = ("scale:X",)

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether it is a factor from 0.5 to 2, and not 1."""
        try:
            factor = float(argument or "")
        except ValueError:
            return False
        return SMALLEST <= factor <= LARGEST and factor != 1

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the question about the scaled room."""
        factor = float(self.argument or "")
        said = f"the room is {factor:g} times as large"
        return self.of_room(question, room, [self.edit(room, 0.0, factor)], said)


class Rotate(WholeRoomPlan):
    """The room is turned about its middle, the first view with it; no answer changes."""

    name = "rotate"
    forms = ("rotate[:DEGREES]",)

    @classmethod
    def accepts(cls, argument: str | None) -> bool:
        """Whether it is an angle, or nothing for a quarter turn."""
        try:
            degrees = float(argument or 90)
        except ValueError:
            return False
        return argument != "" and math.isfinite(degrees) and degrees % 360 != 0

    def counterpart(self, question: Question, room: ChangeableRoom, seed: int) -> Question:
        """Return the question about the turned room."""
        degrees = float(self.argument or 90)
        said = f"the room is turned by {degrees:g} degrees"
        return self.of_room(question, room, [self.edit(room, degrees, 1.0)], said)
