"""Image features of dialogues: precomputed in files, or computed by a tower that is being trained.

python -m training.sight CHECKPOINT DIALOGUES...

Writes `features.npy` to each folder of dialogues, computed by the checkpoint's vision tower.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from training.dialogue_file import IMAGES_FILE
from training.networks import encode_images
from training.optimizer import compute_dtype, load_weights, read_weights
from training.shape import TOKENS, WIDTH

FEATURES = "features.npy"
BATCH_SIZE = 48


class StoredFeatures:
    """Precomputed features: bfloat16, stored as int16 because numpy has no bfloat16."""

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays
        ends = np.cumsum([0, *map(len, arrays)])
        self.offsets = [int(end) for end in ends[:-1]]

    def stack(self, rows: Sequence[int]) -> Any:
        """Return rows of the files, stacked."""
        folders = np.searchsorted(self.offsets, rows, side="right") - 1
        return np.stack(
            [
                self.arrays[folder][row - self.offsets[folder]]
                for folder, row in zip(folders, rows, strict=True)
            ]
        )

    def __call__(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """Return the features of images, two arrays of (n, 70, 256) bfloat16."""
        import torch

        features = torch.from_numpy(self.stack(rows)).view(torch.bfloat16)
        return features[:, 0], features[:, 1]


class ComputedFeatures(StoredFeatures):
    """Features computed on demand by a vision tower; `arrays` contains the images."""

    def __init__(self, model: Any, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self.model = model

    def __call__(self, rows: Sequence[int]) -> tuple[Any, Any]:
        """Return the features of images, two arrays of (n, 70, 256), attached to the tower's graph."""
        import torch

        return encode_images(self.model, torch.from_numpy(self.stack(rows)))


def load_features(folders: Sequence[Path]) -> StoredFeatures:
    """Return the features stored in folders of dialogues."""
    return StoredFeatures([np.load(folder / FEATURES, mmap_mode="r") for folder in folders])


def make_features(model: Any, folders: Sequence[Path]) -> ComputedFeatures:
    """Return features of the images in folders of dialogues, computed by a model's tower on demand."""
    return ComputedFeatures(
        model, [np.load(folder / IMAGES_FILE, mmap_mode="r") for folder in folders]
    )


def store_features(model: Any, folder: Path) -> int:
    """Compute and atomically write the features of a folder's images; return their number."""
    import torch

    computed = make_features(model, [folder])
    num_images = len(computed.arrays[0])
    shape = num_images, 2, TOKENS, WIDTH
    partial = folder / f"{FEATURES}.part"
    out = np.lib.format.open_memmap(partial, "w+", np.int16, shape)
    for start in range(0, num_images, BATCH_SIZE):
        rows = range(start, min(start + BATCH_SIZE, num_images))
        with torch.no_grad():
            features = torch.stack(computed(list(rows)), dim=1)
        out[start : start + len(features)] = features.to(torch.bfloat16).view(torch.int16).numpy()
    out.flush()
    partial.replace(folder / FEATURES)
    return num_images


def main() -> None:
    """Write the features for every folder named on the command line."""
    from training.shape import new_model
    from training.tokenizer import small_tokenizer

    checkpoint, *folders = map(Path, sys.argv[1:])
    model = new_model(small_tokenizer(), 0)
    weights = read_weights(checkpoint)
    missing_names = [name for name in load_weights(model, weights) if name.startswith("visual.")]
    if missing_names:
        raise KeyError(missing_names[0])
    model.to(compute_dtype())
    for folder in folders:
        print(folder, store_features(model, folder))


if __name__ == "__main__":
    main()
