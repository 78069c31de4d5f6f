"""A random walk: the moves that a model could make, drawn from the seed and the question's id."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.config import RunConfig
from render_agent.dialogue.moves import Limits, carry_out
from render_agent.dialogue.reply import Action
from render_agent.dialogue.state import Question
from render_agent.observation.view_policies.base import FurtherViews, ViewContext, ViewPolicy

MIN_STEP_METRES = 0.2
"""Metres: a shorter step shows little that is new."""


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
        limits, camera, cameras = Limits(), context.start, []
        for _ in range(self.count):
            action = Action(
                rotation=chance.uniform(-limits.rotation, limits.rotation),
                forward=chance.uniform(MIN_STEP_METRES, limits.metres),
            )
            camera = carry_out(action, camera, context.space, limits).camera
            cameras.append(camera)
        return FurtherViews(cameras, shared=False)
