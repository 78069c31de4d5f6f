"""Features of the images in dialogues: precomputed in files, or computed by a tower that is being trained.

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
AT_ONCE = 48


class StoredFeatures:
    """Precomputed features: bfloat16, stored as int16 because numpy has no bfloat16.

    `offsets` has the number of the first image of each folder.
    """

    def __init__(self, arrays: Sequence[Any]) -> None:
        self.arrays = arrays
        ends = np.cumsum([0, *map(len, arrays)])
        self.offsets = [int(end) for end in ends[:-1]]

    def rows(self, numbers: Sequence[int]) -> Any:
        """Return rows of the files, stacked."""
        places = np.searchsorted(self.offsets, numbers, side="right") - 1
        return np.stack(
            [
                self.arrays[place][number - self.offsets[place]]
                for place, number in zip(places, numbers, strict=True)
            ]
        )

    def __call__(self, numbers: Sequence[int]) -> tuple[Any, Any]:
        """Return the features of images, two of (n, 70, 256) bfloat16."""
        import torch

        features = torch.from_numpy(self.rows(numbers)).view(torch.bfloat16)
        return features[:, 0], features[:, 1]


class ComputedFeatures(StoredFeatures):
    """Features computed by a vision tower on demand. `arrays` has the images."""

    def __init__(self, model: Any, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self.model = model

    def __call__(self, numbers: Sequence[int]) -> tuple[Any, Any]:
        """Return the features of images, two of (n, 70, 256), attached to the tower's graph."""
        import torch

        return encode_images(self.model, torch.from_numpy(self.rows(numbers)))


def load_features(folders: Sequence[Path]) -> StoredFeatures:
    """Return the features stored in folders of dialogues."""
    return StoredFeatures([np.load(folder / FEATURES, mmap_mode="r") for folder in folders])


def make_features(model: Any, folders: Sequence[Path]) -> ComputedFeatures:
    """Return the images in folders of dialogues as features of a model's tower."""
    return ComputedFeatures(
        model, [np.load(folder / IMAGES_FILE, mmap_mode="r") for folder in folders]
    )


def store_features(model: Any, folder: Path) -> int:
    """Compute and atomically write the features of a folder's images; return their number."""
    import torch

    pictures = np.load(folder / IMAGES_FILE, mmap_mode="r")
    seen = make_features(model, [folder])
    shape = len(pictures), 2, TOKENS, WIDTH
    partial = folder / f"{FEATURES}.part"
    out = np.lib.format.open_memmap(partial, "w+", np.int16, shape)
    for start in range(0, len(pictures), AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, len(pictures)))
        with torch.no_grad():
            features = torch.stack(seen(list(numbers)), dim=1)
        out[start : start + len(features)] = features.to(torch.bfloat16).view(torch.int16).numpy()
    out.flush()
    partial.replace(folder / FEATURES)
    return len(pictures)


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
