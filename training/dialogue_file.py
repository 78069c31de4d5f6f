"""Training dialogues stored as arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DIALOGUES_FILE, IMAGES_FILE = "dialogues.npz", "pictures.npy"  # files in a folder of training data


@dataclass(frozen=True, eq=False)
class Dialogues:
    """D concatenated dialogues."""

    ids: NDArray[np.int16]  # (tokens,) int16 token ids, with one placeholder per image token
    learned: NDArray[np.bool_]
    """(tokens,) bool, True for the tokens to predict: replies and their end tokens."""
    offsets: NDArray[np.int64]  # (D + 1,) int64 start of each dialogue
    pictures: NDArray[np.int32]  # (shown,) int32 rows of the image file, in display order
    picture_offsets: NDArray[np.int64]  # (D + 1,) int64 start of each dialogue's images
    questions: NDArray[np.str_]  # (D,) question ids
    scenes: NDArray[np.str_]  # (D,) scene names
    types: NDArray[np.str_]  # (D,) question types
    views: NDArray[np.str_]  # (D,) option `views` of the run
    shown: NDArray[np.str_]  # (D,) option `pictures` of the run
    scores: NDArray[np.float32]  # (D,) float32 score of the final answer, NaN if there is none
    hashes: NDArray[np.uint8]  # (N, 16) uint8 hashes of the images in the image file
    sources: NDArray[np.str_]  # (files,) hash of each encoded file

    def __len__(self) -> int:
        """Return the number of dialogues."""
        return len(self.offsets) - 1

    def save(self, file: Path) -> None:
        """Write the file atomically."""
        partial = file.with_suffix(".part.npz")
        np.savez(partial, **{entry.name: getattr(self, entry.name) for entry in fields(self)})
        partial.replace(file)


@dataclass(frozen=True, eq=False)
class EncodedDialogue:
    """One encoded dialogue before concatenation; fields as in `Dialogues`."""

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
    """Load a file written by `Dialogues.save`."""
    with np.load(file, allow_pickle=False) as arrays:
        return Dialogues(**{entry.name: arrays[entry.name] for entry in fields(Dialogues)})


def concatenate(
    existing: Dialogues | None,
    encoded: Sequence[EncodedDialogue],
    hashes: Sequence[bytes] = (),
    sources: Sequence[str] = (),
) -> Dialogues:
    """Append encoded dialogues to existing ones."""
    image_rows = [np.asarray(dialogue.pictures, np.int32) for dialogue in encoded]
    arrays: dict[str, Any] = {
        "ids": _concatenate([dialogue.ids for dialogue in encoded], np.int16),
        "learned": _concatenate([dialogue.learned for dialogue in encoded], np.bool_),
        "offsets": _offsets([dialogue.ids for dialogue in encoded]),
        "pictures": _concatenate(image_rows, np.int32),
        "picture_offsets": _offsets(image_rows),
        "questions": np.array([dialogue.question for dialogue in encoded], np.str_),
        "scenes": np.array([dialogue.scene for dialogue in encoded], np.str_),
        "types": np.array([dialogue.type for dialogue in encoded], np.str_),
        "views": np.array([dialogue.views for dialogue in encoded], np.str_),
        "shown": np.array([dialogue.shown for dialogue in encoded], np.str_),
        "scores": np.array([dialogue.score for dialogue in encoded], np.float32),
        "hashes": np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, 16),
        "sources": np.array(list(sources), np.str_),
    }
    if existing is None:
        return Dialogues(**arrays)
    for name, length in ("offsets", len(existing.ids)), ("picture_offsets", len(existing.pictures)):
        arrays[name] = arrays[name][1:] + length
    merged = {
        name: np.concatenate([getattr(existing, name), array]) for name, array in arrays.items()
    }
    return Dialogues(**merged)


def _concatenate(arrays: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *arrays]).astype(dtype)


def _offsets(arrays: Sequence[NDArray[Any]]) -> NDArray[np.int64]:
    return np.cumsum([0, *map(len, arrays)], dtype=np.int64)
