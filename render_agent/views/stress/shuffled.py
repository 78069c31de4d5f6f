"""`--pictures shuffled`: every question is shown another question's scene."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from render_agent.dialogue.question import Question
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.scans.cache import Place
from render_agent.views.stress.image_stress import PictureStress


class Shuffled(PictureStress):
    """The dialogues take place in scenes that are exchanged among the questions of the run."""

    note = "stress test: the pictures show another question's scene (--pictures shuffled)"
    faithful = False
    own_scene = False
    scene_set = None
    reads_all_scans = True

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise UsageError where there are no two scenes to exchange, or nothing is shown."""
        if config.shard:
            raise UsageError(
                "--pictures shuffled needs all scenes in one run: leave --shard out; --workers and --ray"
                " share a run among processes and machines"
            )
        if len(_places(questions)) < 2:
            raise UsageError(
                "--pictures shuffled needs the scans of two scenes at least: choose questions of more"
            )

    def exchanged(self, questions: Sequence[Question], seed: int) -> dict[Place, Place]:
        """Return for every scene another one."""
        return exchanged_scenes(questions, seed)


def exchanged_scenes(questions: Sequence[Question], seed: int) -> dict[Place, Place]:
    """Return for every scene another one of the same questions, each used once.

    It depends on the seed and the names of the scenes alone: one circle through all of them (Sattolo
    1986), so that none stays where it is.
    """
    places = _places(questions)
    chance = random.Random(hashlib.sha256(f"{seed} scenes".encode()).digest())
    shuffled = [*places]
    for last in range(len(shuffled) - 1, 0, -1):
        other = chance.randrange(last)
        shuffled[last], shuffled[other] = shuffled[other], shuffled[last]
    return dict(zip(places, shuffled, strict=True))


def _places(questions: Sequence[Question]) -> list[Place]:
    """Return the scans with the names of their scenes, in the order of the names."""
    places = {(question.scan, question.scene) for question in questions if question.scan}
    return sorted(places, key=lambda place: (place[1], place[0].name))
