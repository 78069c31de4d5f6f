"""Scene cache: each scan is read once, shared by its questions, and evicted when memory is short."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from render_agent.errors import QuestionsError, SceneError
from render_agent.scans.annotation_rooms.annotations import (
    SceneAnnotation,
    is_annotation_file,
    read_annotations,
)
from render_agent.scans.file_frame import AUTO, AnyUnit, Up
from render_agent.scans.scene import Scene

if TYPE_CHECKING:
    from render_agent.scans.free_space.free_space import FreeSpace

logger = logging.getLogger(__name__)

MAX_CACHE_BYTES = 4 << 30  # default limit for all cached scenes together

Place = tuple[Path, str]
"""A file and the name of a scene in it. Annotation files contain many scenes."""


class SceneReference(Protocol):
    """Identifies a scene; implemented, for example, by `Question`."""

    @property
    def scan(self) -> Path | None:
        """Scan file, or None if it was not found."""

    @property
    def scene(self) -> str:
        """Name of the scene."""


class SceneReader:
    """Reads scenes from scan files, or builds them from annotation files, which are parsed once."""

    def __init__(self, up: Up = AUTO, unit: AnyUnit = AUTO) -> None:
        self.up = up
        self.unit = unit
        self._annotations: dict[Path, dict[str, SceneAnnotation]] = {}
        self._lock = Lock()

    def read(self, path: Path, name: str) -> Scene:
        """Read scene `name` of file `path`. Raises SceneError if it cannot be read."""
        if is_annotation_file(path):
            from render_agent.scans.annotation_rooms.annotated_room import build_annotated_room

            return build_annotated_room(self._annotation(path, name), path)
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
            raise SceneError(f"{path} has no annotation of scene {name}; restore the file")
        return self._annotations[path][name]


@dataclass(eq=False)
class _Entry:
    """A scene, loaded or being loaded, and its free space once it has been requested."""

    scene: Future[Scene] = field(default_factory=Future)
    space: FreeSpace | None = None
    building: Lock = field(default_factory=Lock)

    @property
    def bytes(self) -> int:
        if not self.scene.done() or self.scene.exception() is not None:
            return 0
        return self.scene.result().bytes + (self.space.bytes if self.space is not None else 0)


class SceneCache:
    """Thread-safe LRU cache of scenes and their free space.

    Concurrent requests for a scene wait for the first one to load it. A SceneError is cached too, so that every
    question about a broken scan fails with the same message.
    """

    def __init__(
        self,
        limit: int = MAX_CACHE_BYTES,
        load: Callable[[Path, str], Scene] | None = None,
        replacements: Mapping[Place, Place] | None = None,
    ) -> None:
        self.limit = limit
        self.loads = 0
        self._load = load or SceneReader().read
        self._replacements = replacements or {}
        self._entries: OrderedDict[Place, _Entry] = OrderedDict()
        self._lock = Lock()

    def get(self, question: SceneReference) -> Scene:
        """Return the scene of a question. Raises SceneError if its scan is missing or unreadable."""
        return self._entry(question).scene.result()

    def space(self, question: SceneReference) -> FreeSpace:
        """Return the free space of a question's scene, which is built on first use."""
        from render_agent.scans.free_space.free_space import FreeSpace

        entry = self._entry(question)
        with entry.building:
            if entry.space is None:
                entry.space = FreeSpace.of(entry.scene.result())
                self._shrink(entry)
        return entry.space

    def _entry(self, question: SceneReference) -> _Entry:
        """Return the cache entry of a question's scene, and load the scene if it is new."""
        path = question.scan
        if path is None:
            raise SceneError(
                f"missing scan of scene {question.scene}: pass the folder that contains it"
            )
        key = path, question.scene
        key = self._replacements.get(key, key)
        with self._lock:
            entry = self._entries.get(key)
            is_new = entry is None
            if entry is None:
                entry = self._entries[key] = _Entry()
                self.loads += 1
            self._entries.move_to_end(key)
        if is_new:
            self._read(key, entry)
        error = entry.scene.exception()
        if isinstance(error, SceneError):
            # A new exception, because an exception raised repeatedly accumulates tracebacks.
            raise SceneError(*error.args) from error
        return entry

    def _read(self, key: Place, entry: _Entry) -> None:
        try:
            scene = self._load(*key)
        # Any error is passed on to the threads that wait for this scene.
        except BaseException as error:
            entry.scene.set_exception(error)
            if not isinstance(error, SceneError):
                with self._lock:
                    self._entries.pop(key, None)
                raise
        else:
            entry.scene.set_result(scene)
            self._shrink(entry)

    def _shrink(self, current: _Entry) -> None:
        """Evict least recently used scenes, except `current`, until the rest fits the limit."""
        with self._lock:
            sizes = {key: entry.bytes for key, entry in self._entries.items()}
            total = sum(sizes.values())
            for key, size in sizes.items():
                if total <= self.limit:
                    break
                if size and self._entries[key] is not current:
                    del self._entries[key]
                    total -= size
