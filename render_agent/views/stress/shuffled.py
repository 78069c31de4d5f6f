"""`--image-stress shuffled`: each question is shown the scene of another one."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from render_agent.dialogue.question import Question
from render_agent.errors import UsageError
from render_agent.options import RunConfig
from render_agent.scans.cache import Place
from render_agent.views.stress.image_stress import ImageStress


class Shuffled(ImageStress):
    """Scenes are exchanged among the questions of the run."""

    note = "stress test: images show the scene of another question (--image-stress shuffled)"
    faithful = False
    shows_own_scene = False
    scene_set = None
    reads_all_scans = True

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise UsageError if the run is a shard or has fewer than two scenes."""
        if config.shard:
            raise UsageError(
                "--image-stress shuffled needs all scenes in one run. Omit --shard; to distribute the run, use"
                " --workers or --ray."
            )
        if len(_places(questions)) < 2:
            raise UsageError(
                "--image-stress shuffled needs the scans of at least two scenes. Choose questions about more scenes."
            )

    def scene_replacements(self, questions: Sequence[Question], seed: int) -> dict[Place, Place]:
        return exchanged_scenes(questions, seed)


def exchanged_scenes(questions: Sequence[Question], seed: int) -> dict[Place, Place]:
    """Map each scene to a different one, using each scene once.

    The mapping is a single cycle (Sattolo 1986) that depends only on the seed and the scene names.
    """
    places = _places(questions)
    generator = random.Random(hashlib.sha256(f"{seed} scenes".encode()).digest())
    order = [*places]
    for end in range(len(order) - 1, 0, -1):
        swap = generator.randrange(end)
        order[end], order[swap] = order[swap], order[end]
    return dict(zip(places, order, strict=True))


def _places(questions: Sequence[Question]) -> list[Place]:
    """Return scans with their scene names, sorted by name."""
    places = {(question.scan, question.scene) for question in questions if question.scan}
    return sorted(places, key=lambda place: (place[1], place[0].name))
