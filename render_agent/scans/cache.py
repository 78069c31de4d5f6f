"""Scene cache: each scan is read once, shared by its questions, and evicted when memory is short."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from render_agent.errors import SceneError
from render_agent.scans.scene import Scene

if TYPE_CHECKING:
    from render_agent.scans.free_space.free_space import FreeSpace

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


def _load_file(path: Path, name: str) -> Scene:
    from render_agent.scans.formats.load import load_scene

    return load_scene(path, name)


class SceneCache:
    """Thread-safe LRU cache of scenes and their free space.

    Concurrent requests for a scene wait for the first one to load it. A SceneError is cached too, so that every
    question about a broken scan fails with the same message.
    """

    def __init__(
        self,
        limit: int = MAX_CACHE_BYTES,
        load: Callable[[Path, str], Scene] = _load_file,
        replacements: Mapping[Place, Place] | None = None,
    ) -> None:
        self.limit = limit
        self.loads = 0
        self._load = load
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
