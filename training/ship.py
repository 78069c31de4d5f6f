"""Writes the model that training made as the package ships it: half precision, tokenizer, processor, wording.

python -m training.ship CHECKPOINT|MODEL... DIRECTORY

Of several the mean of their weights is shipped: of a model and what it became when it learned on, it may be better than
either (Wortsman et al. 2022, "Robust fine-tuning of zero-shot models").
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from render_agent.dialogue.wording import FILE_NAME
from training.optimizer import WEIGHTS, give, weights_of
from training.wording import FILE

MOST_WEIGHTS, MOST_BYTES = 12_000_000, 25_000_000


def ship(directory: Path, *checkpoints: Path) -> Path:
    """Write the mean of checkpoints of `training.dialogue` as a model directory and return it.

    The weights come last: where they are, all is there. ValueError where it is larger than may be
    shipped; then nothing is written.
    """
    import torch

    from training.processor import save_processor

    model = trained(*checkpoints)
    count = sum(weight.numel() for weight in model.parameters())
    if count > MOST_WEIGHTS:
        raise ValueError(f"{count:,} weights are more than {MOST_WEIGHTS:,}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=directory.parent) as beside:
        model.to(torch.float16).save_pretrained(beside)
        (Path(beside) / WEIGHTS).chmod(0o644)  # it was written for its owner alone
        save_processor(Path(beside))
        shutil.copyfile(FILE, Path(beside) / FILE_NAME)
        files = sorted(Path(beside).iterdir(), key=lambda file: file.name == WEIGHTS)
        size = sum(file.stat().st_size for file in files)
        if size > MOST_BYTES:
            raise ValueError(f"{size:,} bytes are more than {MOST_BYTES:,}")
        directory.mkdir(exist_ok=True)
        for file in files:
            file.replace(directory / file.name)
    return directory


def trained(*checkpoints: Path) -> Any:
    """Return the float32 model of a checkpoint, or of the mean of several."""

    from training.shape import new_model
    from training.tokenizer import small_tokenizer

    model = new_model(small_tokenizer(), 0)
    every = [weights_of(checkpoint) for checkpoint in checkpoints]
    weights = {name: sum(some[name] for some in every) / len(every) for name in every[0]}
    lacking = give(model, weights)
    if lacking:
        raise KeyError(lacking[0])
    return model.eval()


def main() -> None:
    """Write the model, and say where."""
    *checkpoints, directory = map(Path, sys.argv[1:])
    print(ship(directory, *checkpoints))


if __name__ == "__main__":
    main()
