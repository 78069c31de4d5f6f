"""The base of `--pictures`: the scene, its pixels, the truth, and the note that each value changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.options import RunConfig
from render_agent.scans.cache import MAX_CACHE_BYTES, Place, SceneCache, SceneFiles
from render_agent.scans.edits import edited_scene
from render_agent.scans.scene import Scene
from render_agent.tasks.choice import Choice
from render_agent.tasks.ground_truth import known_facts
from render_agent.tasks.input_files import InputFile, annotation_files, instance_labels, scan_files

Picture = NDArray[np.uint8]
Paint = Callable[[str, Picture], Picture]
"""Gives what is shown, (H, W, 3), for a picture's file and what was drawn."""


class PictureKeeper(Protocol):
    """Where the pictures of a run are kept."""

    def keep(self, file: str, picture: Picture) -> Future[None]:
        """Write a picture (H, W, 3) beside other work; done when it is on disk."""
        ...

    def there(self, file: str, digest: str | None = None) -> bool:
        """Whether a picture is on disk, whole and, by its SHA-256, the one that was shown."""
        ...


class PictureStress(Choice):
    """What the pictures of a run show; a value of `--pictures` is a subclass, which the registry names."""

    note: ClassVar[str | None] = None
    """What must be said beside every figure of the run; None where the pictures are the real ones."""
    faithful: ClassVar[bool] = True
    """Whether the pictures show the scene that a question is about."""
    own_scene: ClassVar[bool] = True
    """Whether a dialogue takes place in the question's own scene, so that its boxes hold."""
    changes_truth: ClassVar[bool] = False
    """Whether another answer may be right in what is shown."""
    scene_set: ClassVar[str | None] = "real"
    """What the scenes are called by which runs that have the same ones share their plans; None for no others."""
    reads_all_scans: ClassVar[bool] = False
    """Whether a question may be shown the scan of any other question of the run."""

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Give the scans that are shown, their alignments, and of rooms that are changed what tells their objects."""
        scans = scan_files(questions)
        if not config.change:
            return scans
        return [*scans, *instance_labels(questions), *annotation_files(config, questions)]

    def scenes(
        self, config: RunConfig, questions: Sequence[Question], limit: int | None = None
    ) -> SceneCache:
        """Return the scenes that the questions of a run are shown.

        questions: all that the run chose. limit: bytes that they may take, the cache's own unless given.
        UsageError as in `check`.
        """
        self.check(config, questions)
        files = SceneFiles(*config.frame)
        changed = {q.scene: q.change for q in questions if q.change is not None and q.change.edits}
        facts = known_facts([q.unchanged for q in questions], config.annotations) if changed else {}

        def load(path: Path, name: str) -> Scene:
            change = changed.get(name)
            if change is None:
                return self.shown(files.read(path, name))
            scene = files.read(path, change.scene)
            boxes = facts[change.scene].boxes if change.scene in facts else {}
            return self.shown(replace(edited_scene(scene, boxes, change.edits), id=name))

        exchanged = self.exchanged(questions, config.seed)
        return SceneCache(MAX_CACHE_BYTES if limit is None else limit, load, exchanged)

    def shown(self, scene: Scene) -> Scene:
        """Return the scene that is shown in place of one that was read."""
        return scene

    def exchanged(self, questions: Sequence[Question], seed: int) -> Mapping[Place, Place]:
        """Return which scene stands in the place of which; those that are not named stay."""
        return {}

    def painted(self, pictures: PictureKeeper, seed: int) -> PictureKeeper:
        """Return the keeper that stores the changed pictures."""
        return pictures

    def truth(self, question: Question) -> str | None:
        """Return what is right in what is shown, None where nobody knows."""
        return question.truth

    def figures(self, states: Sequence[QuestionState]) -> dict[str, Any]:
        """Return what `results.json` has beside its usual figures. states: those that are scored."""
        return {}


@dataclass(frozen=True)
class Painted:
    """Keeps something else in the place of every picture."""

    pictures: PictureKeeper
    paint: Paint

    def keep(self, file: str, picture: Picture) -> Future[None]:
        """Write the changed picture."""
        return self.pictures.keep(file, self.paint(file, picture))

    def there(self, file: str, digest: str | None = None) -> bool:
        """Whether a picture is on disk, whole and, by its SHA-256, the one that was shown."""
        return self.pictures.there(file, digest)


class Real(PictureStress):
    """No stress: the pictures show the scene as it is."""
