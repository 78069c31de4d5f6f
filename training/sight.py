"""The features of pictures that dialogues show: kept in files, or computed anew by a tower that learns on.

python -m training.sight CHECKPOINT DIALOGUES...

writes `features.npy` into each folder of dialogues, as the tower of the checkpoint sees its pictures.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from training.dialogue_file import PICTURES
from training.networks import encode_images
from training.optimizer import computing, give, weights_of
from training.shape import TOKENS, WIDTH

FEATURES = "features.npy"
AT_ONCE = 48


class Kept:
    """Features read from files; bfloat16, kept as int16 since numpy knows no bfloat16.

    offsets: by folder, what is added to the numbers of its pictures.
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
        """Return the features of pictures, two of (n, 70, 256) bfloat16."""
        import torch

        both = torch.from_numpy(self.rows(numbers)).view(torch.bfloat16)
        return both[:, 0], both[:, 1]


class Computed(Kept):
    """Features of pictures as a tower sees them now; arrays: the pictures."""

    def __init__(self, model: Any, arrays: Sequence[Any]) -> None:
        super().__init__(arrays)
        self.model = model

    def __call__(self, numbers: Sequence[int]) -> tuple[Any, Any]:
        """Return the features of pictures, two of (n, 70, 256), with the way back into the tower."""
        import torch

        return encode_images(self.model, torch.from_numpy(self.rows(numbers)))


def kept(folders: Sequence[Path]) -> Kept:
    """Return the features that lie in folders of dialogues."""
    return Kept([np.load(folder / FEATURES, mmap_mode="r") for folder in folders])


def computed(model: Any, folders: Sequence[Path]) -> Computed:
    """Return the features of the pictures in folders of dialogues as a model's tower sees them."""
    return Computed(model, [np.load(folder / PICTURES, mmap_mode="r") for folder in folders])


def keep(model: Any, folder: Path) -> int:
    """Write the features of a folder's pictures in one piece, and return how many."""
    import torch

    pictures = np.load(folder / PICTURES, mmap_mode="r")
    seen = computed(model, [folder])
    shape = len(pictures), 2, TOKENS, WIDTH
    beside = folder / f"{FEATURES}.part"
    out = np.lib.format.open_memmap(beside, "w+", np.int16, shape)
    for start in range(0, len(pictures), AT_ONCE):
        numbers = range(start, min(start + AT_ONCE, len(pictures)))
        with torch.no_grad():
            both = torch.stack(seen(list(numbers)), dim=1)
        out[start : start + len(both)] = both.to(torch.bfloat16).view(torch.int16).numpy()
    out.flush()
    beside.replace(folder / FEATURES)
    return len(pictures)


def main() -> None:
    """Write the features for every folder named on the command line."""

    from training.shape import new_model
    from training.tokenizer import small_tokenizer

    checkpoint, *folders = map(Path, sys.argv[1:])
    model = new_model(small_tokenizer(), 0)
    weights = weights_of(checkpoint)
    lacking = [name for name in give(model, weights) if name.startswith("visual.")]
    if lacking:
        raise KeyError(lacking[0])
    model.to(computing())
    for folder in folders:
        print(folder, keep(model, folder))


if __name__ == "__main__":
    main()
