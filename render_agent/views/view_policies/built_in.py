"""Built-in view policies except the tour: free, blind, fixed views relative to the start, and a random walk."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.dialogue.moves import apply_action
from render_agent.dialogue.question import Question
from render_agent.dialogue.reply import MAX_MOVE_METRES, MAX_ROTATION_DEGREES, Action
from render_agent.options import RunConfig
from render_agent.views.view_policies.view_policy import (
    AdditionalViews,
    ViewChooser,
    ViewContext,
    ViewPolicy,
)

MIN_STEP_METRES = 0.2  # shorter steps reveal little


class Free(ViewPolicy):
    """The model chooses its views."""

    name = "free"
    free = True

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the map and the first view if they are allowed. Tours and walks start with the same views."""
        return tuple(kind for kind in ("top", "ego") if kind in kinds) or tuple(kinds[:1])

    def note(self, kinds: Sequence[str], max_turns: int) -> None:
        """Return None: a free run needs no caveat."""


class Blind(ViewPolicy):
    """Nothing is shown."""

    name = "none"
    blind = True
    shared = True

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        return ()

    def max_views(self, kinds: Sequence[str], max_turns: int) -> int:
        return 0

    def note(self, kinds: Sequence[str], max_turns: int) -> str:
        return "blind: the model was shown no images (--views none)"


class _Fixed(ViewPolicy):
    """The first view, and views at fixed angles to it."""

    shared = True
    lefts: tuple[float, ...] = ()
    """Angles in degrees to the left of the first view, one per additional view."""
    kind = "ego"

    def opening_kinds(self, kinds: Sequence[str]) -> tuple[str, ...]:
        """Return the view type of this policy."""
        self.need(self.kind, kinds)
        return (self.kind,)

    def max_views(self, kinds: Sequence[str], max_turns: int) -> int:
        """Return the number of views, regardless of turns."""
        return 1 + len(self.lefts)

    def build(self, config: RunConfig, questions: Sequence[Question]) -> ViewChooser:
        return self

    def additional_views(self, question: Question, context: ViewContext) -> AdditionalViews:
        """Return the start camera, turned by each angle."""
        return AdditionalViews([context.start.turned(degrees) for degrees in self.lefts])


class Start(_Fixed):
    """Only the first view."""

    name = "start"
    description = "only the first one"


class Four(_Fixed):
    """The first view and those to its left, back and right."""

    name = "four"
    description = "the first one and those to its left, right and back"
    lefts = (90.0, 180.0, -90.0)


class Top(_Fixed):
    """Only the map."""

    name = "top"
    description = "only the map"
    kind = "top"


class RandomWalkViews(ViewPolicy):
    """A separate random walk for each question."""

    name = "random-walk"
    description = "a random walk of {count}"

    def build(self, config: RunConfig, questions: Sequence[Question]) -> RandomWalk:
        """Return the random walk seeded by the run."""
        return RandomWalk(config.max_turns - 1, config.seed)


@dataclass(frozen=True, slots=True)
class RandomWalk:
    """A random walk: each view follows a rotation by any angle and a step forward of at most one turn's reach.

    Walls and furniture stop it, as they do the model.
    """

    count: int
    seed: int = 0

    def additional_views(self, question: Question, context: ViewContext) -> AdditionalViews:
        """Return the cameras of the walk; a question and its counterpart share one."""
        key = f"{self.seed} {question.seed_id}".encode("utf-8", "backslashreplace")
        generator = random.Random(hashlib.sha256(key).digest())
        camera, cameras = context.start, []
        for _ in range(self.count):
            action = Action(
                rotation=generator.uniform(-MAX_ROTATION_DEGREES, MAX_ROTATION_DEGREES),
                forward=generator.uniform(MIN_STEP_METRES, MAX_MOVE_METRES),
            )
            camera = apply_action(action, camera, context.space)[0]
            cameras.append(camera)
        return AdditionalViews(cameras, shared=False)
