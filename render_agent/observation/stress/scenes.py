"""The scenes in which the dialogues of a run take place: the questions' own, others', or mirrored ones."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path

from render_agent.config import RunConfig
from render_agent.dialogue.state import Question
from render_agent.errors import UsageError
from render_agent.scene.cache import MAX_CACHE_BYTES, Place, SceneCache, SceneFiles
from render_agent.scene.mirrored import mirrored
from render_agent.scene.model import Scene


def scenes_of(
    config: RunConfig, questions: Sequence[Question], limit: int = MAX_CACHE_BYTES
) -> SceneCache:
    """Return the scenes that the questions of a run are shown.

    questions: all that the run chose, since a scene is shuffled among theirs. limit: bytes that they
    may take. UsageError as in `check_stress`.
    """
    check_stress(config, questions)
    files = SceneFiles()
    if config.pictures == "mirrored":

        def load(path: Path, name: str) -> Scene:
            return mirrored(files.read(path, name))

        return SceneCache(limit, load)
    if config.pictures == "shuffled":
        return SceneCache(limit, files.read, exchanged_scenes(questions, config.seed))
    return SceneCache(limit, files.read)


def check_stress(config: RunConfig, questions: Sequence[Question]) -> None:
    """UsageError where pictures cannot be what --pictures wants."""
    if config.pictures != "real" and config.blind:
        raise UsageError(
            f"--pictures {config.pictures} says what views show, and --views none shows none: leave one"
            " of them out"
        )
    if config.pictures != "shuffled":
        return
    if config.shard:
        raise UsageError(
            "--pictures shuffled needs all scenes in one run: leave --shard out; --workers and --ray"
            " share a run among processes and machines"
        )
    if len(_places(questions)) < 2:
        raise UsageError(
            "--pictures shuffled needs the scans of two scenes at least: choose questions of more"
        )


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
