"""Base class of image stress tests (`--image-stress`): the changes to the scene, its pixels and the ground truth."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import QuestionState
from render_agent.options import RunConfig
from render_agent.scans.cache import MAX_CACHE_BYTES, Place, SceneCache
from render_agent.scans.edits import edit_scene
from render_agent.scans.instances import instance_files
from render_agent.scans.scene import Scene
from render_agent.tasks.ground_truth import facts_files, load_facts
from render_agent.tasks.input_files import (
    Choice,
    Digests,
    InputFile,
    check_scene,
    scan_files,
    scan_paths,
)
from render_agent.tasks.scene_reader import read_scene

RGBImage = NDArray[np.uint8]
# (file name, rendered image) -> image to show, (H, W, 3).
Paint = Callable[[str, RGBImage], RGBImage]


class ImageSink(Protocol):
    """Stores the images of a run."""

    def save(self, file: str, image: RGBImage) -> Future[None]:
        """Write an image, (H, W, 3), in the background; the future completes when it is on disk."""
        ...

    def is_saved(self, file: str, digest: str | None = None) -> bool:
        """Return True if an image is on disk, intact and, according to its SHA-256, unchanged."""
        ...


class ImageStress(Choice):
    """A modification of the images of a run. Values of `--image-stress` are registered subclasses."""

    note: ClassVar[str | None] = None
    """Caveat reported with every score of the run; None if images are unchanged."""
    faithful: ClassVar[bool] = True
    """True if the images show the scene that a question is about."""
    shows_own_scene: ClassVar[bool] = True
    """True if the dialogue takes place in the question's scene, so that its object boxes apply."""
    changes_ground_truth: ClassVar[bool] = False
    """True if the correct answer may change."""
    scene_set: ClassVar[str | None] = "real"
    """Name of the set of scenes. Runs with the same set share their view plans; None never shares."""
    reads_all_scans: ClassVar[bool] = False
    """True if a question may be shown the scan of any other question of the run."""

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Return the scans and their alignments."""
        return scan_files(questions)

    def scenes(
        self,
        config: RunConfig,
        questions: Sequence[Question],
        limit: int | None = None,  # size limit of the scene cache in bytes; None uses the default
        recorded_digests: Digests = MappingProxyType({}),
    ) -> SceneCache:
        """Return the scenes shown to the questions of a run."""
        self.check(config, questions)
        changes = {q.scene: q.change for q in questions if q.change is not None and q.change.edits}
        facts = load_facts(questions, config) if changes else {}

        digests = dict(recorded_digests)

        def load(path: Path, name: str) -> Scene:
            change, inputs = changes.get(name), scan_paths(path)
            original = name if change is None else change.scene
            scene = read_scene(path, original, *config.frame)
            if change is not None:
                boxes = facts[change.scene].boxes if change.scene in facts else {}
                scene = replace(edit_scene(scene, boxes, change.edits), id=name)
                inputs += facts_files([q for q in questions if q.scan == path], config)
                inputs += instance_files(path)
            was_added = digests.get(str(path)) is None  # after the run started
            check_scene(scene, () if was_added else inputs, digests)
            digests.update(scene.files)
            return self.transform_scene(scene)

        replacements = self.scene_replacements(questions, config.seed)
        return SceneCache(MAX_CACHE_BYTES if limit is None else limit, load, replacements)

    def transform_scene(self, scene: Scene) -> Scene:
        """Return the scene to show instead of `scene`."""
        return scene

    def scene_replacements(self, questions: Sequence[Question], seed: int) -> Mapping[Place, Place]:
        """Return the replacement of each original scene; other scenes are shown unchanged."""
        return {}

    def wrap_store(self, images: ImageSink, seed: int) -> ImageSink:
        """Return the store that saves the changed images."""
        return images

    def ground_truth(self, question: Question) -> str | None:
        """Return the correct answer for the scene shown; None if it is unknown."""
        return question.ground_truth

    def metrics(self, states: Sequence[QuestionState]) -> dict[str, Any]:
        """Return additional entries of `results.json` for the scored questions."""
        return {}


@dataclass(frozen=True)
class TransformingSink:
    """Stores a changed version of each rendered image."""

    images: ImageSink
    paint: Paint

    def save(self, file: str, image: RGBImage) -> Future[None]:
        """Write the changed image."""
        return self.images.save(file, self.paint(file, image))

    def is_saved(self, file: str, digest: str | None = None) -> bool:
        """Return True if an image is on disk, intact and, according to its SHA-256, unchanged."""
        return self.images.is_saved(file, digest)


class Real(ImageStress):
    """No stress test: images show the unchanged scene."""
