"""Trains the vision tower to predict the object, position and size in each part of an image.

python -m training.perception OUT --pictures DIR... --validation DIR --steps N

Linear layers, discarded afterwards, read this off the tokens passed to the language model. At the same time the language
model's first layer learns to find names in them (`name_attention.py`). Writes a checkpoint every SAVE_STEPS steps; the same
command resumes from it.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from training.labels import CELLS, TARGETS
from training.name_attention import NameFinder, read_places
from training.networks import encode_images
from training.optimizer import MasterWeights, compute_dtype, done_file, rate_at, save
from training.perception_images import KINDS, SHOWN_FILE
from training.phrases import LABELS
from training.shape import GRID, MERGED, TOKENS, WIDTH

CLASSES = len(LABELS) + 1
CELLS_PER_TOKEN = 16  # cells per token (4 x 4)

SCALES = (4.0, 4.0, 1.0, 4.0, 4.0)  # metres per unit of each target

EMPTY_WEIGHT = 0.25  # loss weight of cells without an object

KIND_SHARES = (0.5, 0.35, 0.15)  # shares of maps, single views and around views in a batch

MAP_WEIGHT = 3.0  # loss weight of object cells in maps, where objects are small and most answers are read off

SAVE_STEPS = 500


class LabelledImages(NamedTuple):
    """Images, (n, 224, 320, 3) uint8, and their labels, as tensors."""

    images: Any  # (n, 224, 320, 3) uint8
    classes: Any  # (n, 28, 40)
    targets: Any  # (n, 28, 40, 5)
    kinds: Any  # (n,) indices of KINDS
    places: Any


class ImageDataset:
    """Labelled images of some folders."""

    def __init__(self, folders: list[Path]) -> None:
        def arrays(name: str) -> list[Any]:
            return [np.load(folder / f"{name}.npy", mmap_mode="r") for folder in folders]

        self.images, self.kinds = arrays("pictures"), arrays("kinds")
        self.classes, self.targets = arrays("classes"), arrays("targets")
        self.places = [read_places(folder / SHOWN_FILE) for folder in folders]
        self.locations = [
            (folder, row) for folder, kinds in enumerate(self.kinds) for row in range(len(kinds))
        ]
        kinds = np.concatenate([np.asarray(kinds) for kinds in self.kinds])
        self.rows_by_kind = [np.flatnonzero(kinds == kind) for kind in range(len(KINDS))]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw image indices, with the kinds distributed according to KIND_SHARES."""
        kinds = rng.choice(len(KINDS), count, p=KIND_SHARES)
        return np.array([rng.choice(self.rows_by_kind[kind]) for kind in kinds], np.intp)

    def batch(self, indices: Any) -> LabelledImages:
        """Return the images with the given indices."""
        import torch

        locations = [self.locations[int(index)] for index in indices]

        def stack(arrays: list[Any]) -> Any:
            return torch.from_numpy(np.stack([arrays[folder][row] for folder, row in locations]))

        return LabelledImages(
            stack(self.images),
            stack(self.classes).long(),
            stack(self.targets).float(),
            torch.tensor([int(self.kinds[folder][row]) for folder, row in locations]),
            stack(self.places),
        )


def augment(images: Any, rng: Any) -> Any:
    """Augment images with random brightness, contrast and tint; uint8."""
    import torch

    count = len(images)
    gain = torch.from_numpy(rng.uniform(0.8, 1.2, (count, 1, 1, 1)).astype(np.float32))
    tint = torch.from_numpy(rng.uniform(-14, 14, (count, 1, 1, 3)).astype(np.float32))
    return ((images.float() - 128) * gain + 128 + tint).clamp_(0, 255).to(torch.uint8)


def by_token(cells: Any) -> Any:
    """Regroup cells (n, 28, 40, ...) by token, (n, 70, 16, ...)."""
    count, rest = cells.shape[0], cells.shape[3:]
    rows, columns = GRID[0] // MERGED, GRID[1] // MERGED
    cut = cells.reshape(count, rows, CELLS[1] // rows, columns, CELLS[0] // columns, *rest)
    return cut.transpose(2, 3).reshape(count, TOKENS, CELLS_PER_TOKEN, *rest)


class CellReader:
    """Linear readout of classes and targets from the tokens of an image."""

    def __init__(self) -> None:
        import torch

        self.readout = torch.nn.Linear(2 * WIDTH, CELLS_PER_TOKEN * (CLASSES + TARGETS))

    def loss(
        self, tokens: tuple[Any, Any], labelled: LabelledImages
    ) -> tuple[Any, dict[str, float]]:
        """Return the loss of one batch, and metrics. `tokens` is the output of the tower."""
        import torch
        from torch.nn import functional

        features = torch.cat(tokens, dim=-1)
        predictions = self.readout(features).view(
            len(features), TOKENS, CELLS_PER_TOKEN, CLASSES + TARGETS
        )
        logits = predictions[..., :CLASSES].reshape(-1, CLASSES).float()
        classes = by_token(labelled.classes).reshape(-1)
        weights = torch.where(labelled.kinds == 0, MAP_WEIGHT, 1.0).repeat_interleave(
            TOKENS * CELLS_PER_TOKEN
        )
        weights = torch.where(classes > 0, weights, EMPTY_WEIGHT)
        losses = functional.cross_entropy(logits, classes, reduction="none")
        class_loss = (losses * weights).sum() / weights.sum()
        targets = by_token(labelled.targets).reshape(-1, TARGETS) / torch.tensor(SCALES)
        is_defined = torch.isfinite(targets)
        differences = predictions[..., CLASSES:].reshape(-1, TARGETS).float() - torch.nan_to_num(
            targets
        )
        target_weights = is_defined * weights[:, None].clamp(min=0.5)
        errors = functional.smooth_l1_loss(
            differences, torch.zeros_like(differences), beta=0.05, reduction="none"
        )
        position_loss = (errors * target_weights).sum() / target_weights.sum().clamp(min=1)
        with torch.no_grad():
            shows_object = classes > 0
            accuracy = (logits.argmax(-1) == classes)[shows_object].float().mean()
            metres = (
                (differences.abs() * torch.tensor(SCALES))[:, :2]
                .amax(-1)[is_defined[:, 0]]
                .median()
            )
        metrics = {
            "classes": class_loss.item(),
            "accuracy": accuracy.item(),
            "metres": metres.item(),
        }
        return class_loss + 4 * position_loss, metrics


def main() -> None:
    """Train, or resume training."""
    arguments = _arguments()
    import torch

    from training.shape import new_model
    from training.tokenizer import small_tokenizer

    torch.manual_seed(arguments.seed)
    tokenizer = small_tokenizer()
    model = new_model(tokenizer, arguments.seed).to(compute_dtype())
    learner = PerceptionModel(model, CellReader(), NameFinder(model, tokenizer))
    masters = MasterWeights(learner.modules, decay=0.02)
    data, held_out = ImageDataset(arguments.pictures), ImageDataset([arguments.validation])
    arguments.out.mkdir(parents=True, exist_ok=True)
    checkpoint = arguments.out / "perception.pt"
    first_step, hours_before = 0, 0.0
    if checkpoint.is_file():
        state = torch.load(checkpoint, weights_only=True)
        masters.restore(state["masters"])
        first_step, hours_before = state["step"], state.get("hours", 0.0)
    started_at = time.monotonic()
    for step in range(first_step, arguments.steps):
        rng = np.random.default_rng((arguments.seed, step))
        labelled = data.batch(data.draw(arguments.batch, rng))
        loss, metrics = learner.loss(augment(labelled.images, rng), labelled, rng)
        loss.backward()
        norm = masters.step(rate_at(step, arguments.steps, arguments.rate))
        completed_steps = step + 1
        hours = hours_before + (time.monotonic() - started_at) / 3600
        if completed_steps % 25 == 0:
            line = {
                "step": completed_steps,
                "loss": round(loss.item(), 4),
                "norm": round(norm, 2),
                **metrics,
            }
            _log(arguments.out, {**line, "hours": round(hours, 4)})
        if completed_steps % SAVE_STEPS == 0 or completed_steps == arguments.steps:
            _log(
                arguments.out, {"step": completed_steps, "validation": validate(learner, held_out)}
            )
            save(checkpoint, completed_steps, hours, masters.state())
    done_file(checkpoint, arguments.steps).touch()


class PerceptionModel:
    """All trained parts: the tower, the readout of cells, and the name finder."""

    def __init__(self, model: Any, reader: CellReader, finder: NameFinder) -> None:
        self.model, self.reader, self.finder = model, reader, finder
        for readout in (reader.readout, finder.readout):
            readout.to(compute_dtype())

    @property
    def modules(self) -> dict[str, Any]:
        """The modules by weight prefix."""
        return {
            "visual": self.model.model.visual,
            "reader": self.reader.readout,
            **self.finder.modules,
        }

    def loss(
        self, images: Any, labelled: LabelledImages, rng: np.random.Generator
    ) -> tuple[Any, dict[str, float]]:
        """Return the loss of augmented images with the labels of `labelled`, and metrics."""
        tokens = encode_images(self.model, images)
        reader_loss, reader_metrics = self.reader.loss(tokens, labelled)
        finder_loss, finder_metrics = self.finder.loss(tokens[0], labelled.places, rng)
        return reader_loss + finder_loss, {**reader_metrics, **finder_metrics}


def validate(learner: PerceptionModel, held_out: ImageDataset) -> dict[str, dict[str, float]]:
    """Return the metrics on held-out images, by kind."""
    import torch

    results = {}
    for kind, name in enumerate(KINDS):
        labelled = held_out.batch(held_out.rows_by_kind[kind][:96])
        with torch.no_grad():
            _, metrics = learner.loss(labelled.images, labelled, np.random.default_rng(kind))
        results[name] = {key: round(value, 3) for key, value in metrics.items()}
    return results


def _log(out: Path, line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)
    with (out / "perception.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", type=Path, nargs="+", required=True)
    parser.add_argument("--validation", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
