"""The scenes in memory: each is read once, shared by its questions, dropped when memory is short."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from render_agent.errors import QuestionsError, SceneError
from render_agent.scans.file_frame import AUTO, AnyUnit, Up
from render_agent.scans.scene import Scene
from render_agent.scans.stand_in.annotations import (
    SceneAnnotation,
    is_annotations,
    read_annotations,
)

if TYPE_CHECKING:
    from render_agent.dialogue.question import Question
    from render_agent.scans.free_space.free_space import FreeSpace

logger = logging.getLogger(__name__)

MAX_CACHE_BYTES = 4 << 30
"""Bytes that scenes may take together."""

Place = tuple[Path, str]
"""A file and the name of a scene in it: one file of annotations holds many."""


class SceneFiles:
    """Reads scenes from files: scans, and rooms from annotations, whose files are parsed once.

    up, unit: as in `load_scene`; rooms from annotations need neither.
    """

    def __init__(self, up: Up = AUTO, unit: AnyUnit = AUTO) -> None:
        self.up = up
        self.unit = unit
        self._annotations: dict[Path, dict[str, SceneAnnotation]] = {}
        self._lock = Lock()

    def read(self, path: Path, name: str) -> Scene:
        """Return the scene `name` of the file `path`. SceneError where it holds none."""
        if is_annotations(path):
            from render_agent.scans.stand_in.annotated_room import annotated_scene

            return annotated_scene(self._annotation(path, name), path)
        from render_agent.scans.formats.load import load_scene

        scene = load_scene(path, name, self.up, self.unit)
        logger.info("scene %s, %s: %s", name, path, "; ".join(scene.description))
        return scene

    def _annotation(self, path: Path, name: str) -> SceneAnnotation:
        with self._lock:
            try:
                if path not in self._annotations:
                    self._annotations[path] = read_annotations(path)
            except QuestionsError as error:
                raise SceneError(*error.args) from error
        if name not in self._annotations[path]:
            raise SceneError(f"{path} has no annotation of the scene {name}: restore the file")
        return self._annotations[path][name]


@dataclass(eq=False)
class _Entry:
    """A scene being read or there, and the free space in it once somebody asked for it."""

    scene: Future[Scene] = field(default_factory=Future)
    space: FreeSpace | None = None
    building: Lock = field(default_factory=Lock)

    @property
    def bytes(self) -> int:
        if not self.scene.done() or self.scene.exception() is not None:
            return 0
        return self.scene.result().bytes + (self.space.bytes if self.space is not None else 0)


class SceneCache:
    """Scenes by their file and name, at most `limit` bytes of them, the least recently used dropped first.

    The scene that is asked for is kept even where it alone is larger. Any thread may ask; none
    reads a file that another is reading. A SceneError is remembered, so that every question of a
    broken scan gets the same sentence. `loads` counts the scenes that were read. replacements: the
    scenes that are shown in the place of others.
    """

    def __init__(
        self,
        limit: int = MAX_CACHE_BYTES,
        load: Callable[[Path, str], Scene] | None = None,
        replacements: Mapping[Place, Place] | None = None,
    ) -> None:
        self.limit = limit
        self.loads = 0
        self._load = load or SceneFiles().read
        self._replacements = replacements or {}
        self._entries: OrderedDict[Place, _Entry] = OrderedDict()
        self._lock = Lock()

    def get(self, question: Question) -> Scene:
        """Return the scene of `question`. SceneError where its scan is missing or cannot be read."""
        return self._entry(question).scene.result()

    def space(self, question: Question) -> FreeSpace:
        """Return the free space of the question's scene, built when first asked for."""
        from render_agent.scans.free_space.free_space import FreeSpace

        entry = self._entry(question)
        with entry.building:
            if entry.space is None:
                entry.space = FreeSpace.of(entry.scene.result())
                self._shrink(entry)
        return entry.space

    def _entry(self, question: Question) -> _Entry:
        """Return the entry of the question's scene, read or failed."""
        path = question.scan
        if path is None:
            raise SceneError(
                f"the scan of scene {question.scene} was not found: name the folder in which it lies"
            )
        key = path, question.scene
        key = self._replacements.get(key, key)
        with self._lock:
            entry = self._entries.get(key)
            mine = entry is None
            if entry is None:
                entry = self._entries[key] = _Entry()
                self.loads += 1
            self._entries.move_to_end(key)
        if mine:
            self._read(key, entry)
        error = entry.scene.exception()
        if isinstance(error, SceneError):
            # Raised anew, as one exception raised by many questions would gather their tracebacks.
            raise SceneError(*error.args) from error
        return entry

    def _read(self, key: Place, entry: _Entry) -> None:
        try:
            scene = self._load(*key)
        # Whatever it is, it is handed to every thread that waits for this scene.
        except BaseException as error:
            entry.scene.set_exception(error)
            if not isinstance(error, SceneError):
                with self._lock:
                    self._entries.pop(key, None)
                raise
        else:
            entry.scene.set_result(scene)
            self._shrink(entry)

    def _shrink(self, kept: _Entry) -> None:
        """Drop the least recently used scenes until the rest fits; never `kept`."""
        with self._lock:
            held = {key: entry.bytes for key, entry in self._entries.items()}
            total = sum(held.values())
            for key, size in held.items():
                if total <= self.limit:
                    break
                if size and self._entries[key] is not kept:
                    del self._entries[key]
                    total -= size
