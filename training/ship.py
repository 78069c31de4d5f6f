"""Writes a trained model as shipped in the package: half-precision weights, tokenizer, processor, wording.

python -m training.ship CHECKPOINT|MODEL... DIRECTORY

Given several checkpoints, ships the mean of their weights. The mean of a model and its fine-tuned version can be better
than either (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from render_agent.dialogue.wording import FILE_NAME
from training.optimizer import WEIGHTS, load_weights, read_weights
from training.wording import FILE

MAX_WEIGHTS, MAX_BYTES = 12_000_000, 25_000_000


def ship(directory: Path, *checkpoints: Path) -> Path:
    """Write the mean of checkpoints of `training.dialogue` as a model folder and return it.

    Weights are written last, so their presence means that the folder is complete. Raises ValueError, and writes nothing,
    if the model is too large to ship.
    """
    import torch

    from training.processor import save_processor

    model = mean_model(*checkpoints)
    count = sum(weight.numel() for weight in model.parameters())
    if count > MAX_WEIGHTS:
        raise ValueError(f"the model has {count:,} weights; at most {MAX_WEIGHTS:,} can be shipped")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent) as scratch:
        model.to(torch.float16).save_pretrained(scratch)
        (Path(scratch) / WEIGHTS).chmod(0o644)  # created without read permission for others
        save_processor(Path(scratch))
        shutil.copyfile(FILE, Path(scratch) / FILE_NAME)
        files = sorted(Path(scratch).iterdir(), key=lambda file: file.name == WEIGHTS)
        size = sum(file.stat().st_size for file in files)
        if size > MAX_BYTES:
            raise ValueError(f"the model has {size:,} bytes; at most {MAX_BYTES:,} can be shipped")
        directory.mkdir(exist_ok=True)
        for file in files:
            file.replace(directory / file.name)
    return directory


def mean_model(*checkpoints: Path) -> Any:
    """Return the float32 model of a checkpoint, or of the mean of several."""
    from training.shape import new_model
    from training.tokenizer import small_tokenizer

    model = new_model(small_tokenizer(), 0)
    weights_by_checkpoint = [read_weights(checkpoint) for checkpoint in checkpoints]
    weights = {
        name: sum(checkpoint_weights[name] for checkpoint_weights in weights_by_checkpoint)
        / len(weights_by_checkpoint)
        for name in weights_by_checkpoint[0]
    }
    missing_names = load_weights(model, weights)
    if missing_names:
        raise KeyError(missing_names[0])
    return model.eval()


def main() -> None:
    """Write the model and print its folder."""
    *checkpoints, directory = map(Path, sys.argv[1:])
    print(ship(directory, *checkpoints))


if __name__ == "__main__":
    main()
