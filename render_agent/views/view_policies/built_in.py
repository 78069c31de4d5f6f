"""The values of `--views` that compare no views: the model's own, those that follow from the first, a random walk."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.dialogue.moves import carry_out
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import MAX_MOVE_METRES, MAX_ROTATION_DEGREES, Action
from render_agent.options import RunConfig
from render_agent.views.view_policies.view_policy import (
    FurtherViews,
    Policy,
    ViewContext,
    ViewPolicy,
)

MIN_STEP_METRES = 0.2
"""Metres: a shorter step shows little that is new."""


class Free(ViewPolicy):
    """The model chooses its views."""

    name = "free"
    free = True

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the map and the first view, where they are allowed; tours and walks begin alike."""
        return tuple(kind for kind in ("top", "ego") if kind in kinds) or tuple(kinds[:1])

    def note(self, kinds: Sequence[str], max_turns: int) -> None:
        """Nothing must be said of it."""


class Blind(ViewPolicy):
    """Nothing is shown."""

    name = "none"
    blind = True
    shared = True

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return no kind."""
        return ()

    def most_views(self, kinds: Sequence[str], max_turns: int) -> int:
        """Return 0."""
        return 0

    def note(self, kinds: Sequence[str], max_turns: int) -> str:
        """Return that it is blind."""
        return "blind: the model was shown nothing (--views none)"


class _Fixed(ViewPolicy):
    """The first view, and others that follow from it alone."""

    shared = True
    lefts: tuple[float, ...] = ()
    """Degrees by which the first view is turned to the left, for a view each."""
    kind = "ego"

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return its one kind."""
        self.need(self.kind, kinds)
        return (self.kind,)

    def most_views(self, kinds: Sequence[str], max_turns: int) -> int:
        """Return their number, which does not depend on the turns."""
        return 1 + len(self.lefts)

    def build(self, config: RunConfig, questions: Sequence[Question]) -> Policy:
        """Return what turns on the spot."""
        return self

    def further(self, question: Question, context: ViewContext) -> FurtherViews:
        """Return the start's camera turned by each of the angles."""
        return FurtherViews([context.start.turned(left) for left in self.lefts])


class Start(_Fixed):
    """The first view alone."""

    name = "start"
    words = "the first one alone"


class Four(_Fixed):
    """The first view, and those to its left, behind and to its right."""

    name = "four"
    words = "the first one and what is left, right and behind of it"
    lefts = (90.0, 180.0, -90.0)


class Top(_Fixed):
    """The map alone."""

    name = "top"
    words = "the map alone"
    kind = "top"


class RandomWalkViews(ViewPolicy):
    """A random walk, each question its own."""

    name = "random-walk"
    words = "a random walk of {count}"

    def build(self, config: RunConfig, questions: Sequence[Question]) -> RandomWalk:
        """Return what draws the walk from the seed."""
        return RandomWalk(config.max_turns - 1, config.seed)


@dataclass(frozen=True, slots=True)
class RandomWalk:
    """Turns by any angle and steps forward by up to what one turn allows, view after view.

    count: views. Walls and furniture stop it as they stop the model.
    """

    count: int
    seed: int = 0

    def further(self, question: Question, context: ViewContext) -> FurtherViews:
        """Return the cameras of the walk from the start; each question has its own, a pair one."""
        words = f"{self.seed} {question.chance_id}".encode("utf-8", "backslashreplace")
        chance = random.Random(hashlib.sha256(words).digest())
        camera, cameras = context.start, []
        for _ in range(self.count):
            action = Action(
                rotation=chance.uniform(-MAX_ROTATION_DEGREES, MAX_ROTATION_DEGREES),
                forward=chance.uniform(MIN_STEP_METRES, MAX_MOVE_METRES),
            )
            camera = carry_out(action, camera, context.space)[0]
            cameras.append(camera)
        return FurtherViews(cameras, shared=False)
