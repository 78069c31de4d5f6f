"""Dialogues as arrays: what a training run reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIALOGUES, PICTURES = "dialogues.npz", "pictures.npy"
"""The files of a folder of training data."""


@dataclass(frozen=True, eq=False)
class Dialogues:
    """D dialogues, laid end to end.

    ids: (tokens,) int16, pictures expanded to a placeholder for each of their tokens. learned:
    (tokens,) bool, True for the tokens of replies and their end, which the model is to predict. offsets:
    (D + 1,) int64, where each dialogue begins. pictures: (shown,) int32, rows of the picture file in the
    order in which they are shown. picture_offsets: (D + 1,) int64. questions, scenes, types: (D,) text.
    views, shown: (D,) text, the run's options `views` and `pictures`. scores: (D,) float32, of the
    final answer, NaN where there is none. hashes: (N, 16) uint8, of the files in the picture file.
    sources: (files,) text, the hash of each file that was encoded.
    """

    ids: NDArray[np.int16]
    learned: NDArray[np.bool_]
    offsets: NDArray[np.int64]
    pictures: NDArray[np.int32]
    picture_offsets: NDArray[np.int64]
    questions: NDArray[np.str_]
    scenes: NDArray[np.str_]
    types: NDArray[np.str_]
    views: NDArray[np.str_]
    shown: NDArray[np.str_]
    scores: NDArray[np.float32]
    hashes: NDArray[np.uint8]
    sources: NDArray[np.str_]

    def __len__(self) -> int:
        """How many dialogues there are."""
        return len(self.offsets) - 1

    def save(self, file: Path) -> None:
        """Write all of it; the file that was there stays until the new one is whole."""
        beside = file.with_suffix(".part.npz")
        np.savez(beside, **{entry.name: getattr(self, entry.name) for entry in fields(self)})
        beside.replace(file)


@dataclass(frozen=True, eq=False)
class Encoded:
    """One dialogue before it is laid beside others: as in `Dialogues`, and what is known about it."""

    ids: NDArray[np.int16]
    learned: NDArray[np.bool_]
    pictures: Sequence[int]
    question: str
    scene: str
    type: str
    views: str
    shown: str = "real"
    score: float = float("nan")


def load_dialogues(file: Path) -> Dialogues:
    """Return what `Dialogues.save` wrote."""
    with np.load(file, allow_pickle=False) as arrays:
        return Dialogues(**{entry.name: arrays[entry.name] for entry in fields(Dialogues)})


def gathered(
    before: Dialogues | None,
    encoded: Sequence[Encoded],
    hashes: Sequence[bytes] = (),
    sources: Sequence[str] = (),
) -> Dialogues:
    """Return dialogues behind those that were there before; hashes and sources are the new ones."""
    shown = [np.asarray(one.pictures, np.int32) for one in encoded]
    new: dict[str, Any] = {
        "ids": _joined([one.ids for one in encoded], np.int16),
        "learned": _joined([one.learned for one in encoded], np.bool_),
        "offsets": _ends([one.ids for one in encoded]),
        "pictures": _joined(shown, np.int32),
        "picture_offsets": _ends(shown),
        "questions": np.array([one.question for one in encoded], np.str_),
        "scenes": np.array([one.scene for one in encoded], np.str_),
        "types": np.array([one.type for one in encoded], np.str_),
        "views": np.array([one.views for one in encoded], np.str_),
        "shown": np.array([one.shown for one in encoded], np.str_),
        "scores": np.array([one.score for one in encoded], np.float32),
        "hashes": np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 16),
        "sources": np.array(list(sources), np.str_),
    }
    if before is None:
        return Dialogues(**new)
    for name, length in ("offsets", len(before.ids)), ("picture_offsets", len(before.pictures)):
        new[name] = new[name][1:] + length
    joined = {name: np.concatenate([getattr(before, name), array]) for name, array in new.items()}
    return Dialogues(**joined)


def _joined(arrays: Sequence[NDArray[Any]], kind: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, kind), *arrays]).astype(kind)


def _ends(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, arrays)], dtype=np.int64)
