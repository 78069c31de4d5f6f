"""What is made of a scene alone, kept for later processes: reports of many runs show the same scans."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from render_agent.scene.model import Scene
from render_agent.system.kept_files import kept

NAMES = ("id", "source", "notes")
"""What a scene is called: nothing is made of it."""

Keep = Callable[[Scene, str, Callable[[], bytes]], bytes]
"""Gives what is made of a scene: `kept_of`, or `anew` where it is not to be kept."""

_hashes: WeakKeyDictionary[Scene, bytes] = WeakKeyDictionary()


def kept_of(scene: Scene, what: str, make: Callable[[], bytes]) -> bytes:
    """Return what `make` makes of a scene, as an earlier process kept it where one did.

    what: tells it from all else that is made of scenes. It holds for every scene with the same surface, wherever its
    scan lies and however it was read.
    """
    if scene not in _hashes:
        told = hashlib.sha256()
        for value in fields(scene):
            if value.name not in NAMES:
                _tell(told, getattr(scene, value.name))
        _hashes[scene] = told.digest()
    return kept(_hashes[scene] + what.encode(), make)


def anew(scene: Scene, what: str, make: Callable[[], bytes]) -> bytes:
    """Return what `make` makes, and keep nothing."""
    return make()


def _tell(told: Any, value: Any) -> None:
    """Add a value and all that it holds to a hash."""
    if isinstance(value, np.ndarray):
        told.update(f"{value.dtype}{value.shape}".encode())
        told.update(np.ascontiguousarray(value).data)
    elif is_dataclass(value):
        for each in fields(value):
            _tell(told, getattr(value, each.name))
    elif isinstance(value, tuple):
        told.update(f"{len(value)} of".encode())
        for each in value:
            _tell(told, each)
    else:
        told.update(f"{value!r};".encode())
