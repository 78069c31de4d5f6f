"""Teaches the vision tower which object each part of an image shows, where it is and how large.

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
    """Images, (n, 224, 320, 3) uint8, and their labels, as tensors.

    Attributes:
        pictures: (n, 224, 320, 3) uint8.
        classes: (n, 28, 40).
        targets: (n, 28, 40, 5).
        kinds: (n,) indices of KINDS.
        places: As returned by `read_places`.
    """

    pictures: Any
    classes: Any
    targets: Any
    kinds: Any
    places: Any


class ImageDataset:
    """Labelled images of some folders."""

    def __init__(self, folders: list[Path]) -> None:
        def arrays(name: str) -> list[Any]:
            return [np.load(folder / f"{name}.npy", mmap_mode="r") for folder in folders]

        self.pictures, self.kinds = arrays("pictures"), arrays("kinds")
        self.classes, self.targets = arrays("classes"), arrays("targets")
        self.places = [read_places(folder / SHOWN_FILE) for folder in folders]
        self.where = [
            (part, row) for part, kinds in enumerate(self.kinds) for row in range(len(kinds))
        ]
        kinds = np.concatenate([np.asarray(kinds) for kinds in self.kinds])
        self.of_kind = [np.flatnonzero(kinds == kind) for kind in range(len(KINDS))]

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """Draw image indices, with the kinds distributed according to KIND_SHARES."""
        kinds = rng.choice(len(KINDS), count, p=KIND_SHARES)
        return np.array([rng.choice(self.of_kind[kind]) for kind in kinds], np.intp)

    def batch(self, numbers: Any) -> LabelledImages:
        """Return the images with the given indices."""
        import torch

        places = [self.where[int(number)] for number in numbers]

        def stacked(arrays: list[Any]) -> Any:
            return torch.from_numpy(np.stack([arrays[part][row] for part, row in places]))

        return LabelledImages(
            stacked(self.pictures),
            stacked(self.classes).long(),
            stacked(self.targets).float(),
            torch.tensor([int(self.kinds[part][row]) for part, row in places]),
            stacked(self.places),
        )


def augment(pictures: Any, rng: Any) -> Any:
    """Augment images with random brightness, contrast and tint; uint8."""
    import torch

    count = len(pictures)
    gain = torch.from_numpy(rng.uniform(0.8, 1.2, (count, 1, 1, 1)).astype(np.float32))
    tint = torch.from_numpy(rng.uniform(-14, 14, (count, 1, 1, 3)).astype(np.float32))
    return ((pictures.float() - 128) * gain + 128 + tint).clamp_(0, 255).to(torch.uint8)


def by_token(cells: Any) -> Any:
    """Regroup cells (n, 28, 40, ...) by token, (n, 70, 16, ...)."""
    count, rest = cells.shape[0], cells.shape[3:]
    rows, columns = GRID[0] // MERGED, GRID[1] // MERGED
    cut = cells.reshape(count, rows, CELLS[1] // rows, columns, CELLS[0] // columns, *rest)
    return cut.transpose(2, 3).reshape(count, TOKENS, CELLS_PER_TOKEN, *rest)


class CellReader:
    """Linear layer that reads classes and targets off the tokens."""

    def __init__(self) -> None:
        import torch

        self.layer = torch.nn.Linear(2 * WIDTH, CELLS_PER_TOKEN * (CLASSES + TARGETS))

    def loss(self, tokens: tuple[Any, Any], seen: LabelledImages) -> tuple[Any, dict[str, float]]:
        """Return the loss of one batch, and metrics. `tokens` is the output of the tower."""
        import torch
        from torch.nn import functional

        features = torch.cat(tokens, dim=-1)
        read = self.layer(features).view(len(features), TOKENS, CELLS_PER_TOKEN, CLASSES + TARGETS)
        scores = read[..., :CLASSES].reshape(-1, CLASSES).float()
        truth = by_token(seen.classes).reshape(-1)
        weights = torch.where(seen.kinds == 0, MAP_WEIGHT, 1.0).repeat_interleave(
            TOKENS * CELLS_PER_TOKEN
        )
        weights = torch.where(truth > 0, weights, EMPTY_WEIGHT)
        losses = functional.cross_entropy(scores, truth, reduction="none")
        named = (losses * weights).sum() / weights.sum()
        targets = by_token(seen.targets).reshape(-1, TARGETS) / torch.tensor(SCALES)
        is_defined = torch.isfinite(targets)
        differences = read[..., CLASSES:].reshape(-1, TARGETS).float() - torch.nan_to_num(targets)
        counts = is_defined * weights[:, None].clamp(min=0.5)
        errors = functional.smooth_l1_loss(
            differences, torch.zeros_like(differences), beta=0.05, reduction="none"
        )
        placed = (errors * counts).sum() / counts.sum().clamp(min=1)
        with torch.no_grad():
            object_ = truth > 0
            right = (scores.argmax(-1) == truth)[object_].float().mean()
            metres = (
                (differences.abs() * torch.tensor(SCALES))[:, :2]
                .amax(-1)[is_defined[:, 0]]
                .median()
            )
        figures = {"named": named.item(), "right": right.item(), "metres": metres.item()}
        return named + 4 * placed, figures


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
    first, hours = 0, 0.0
    if checkpoint.is_file():
        state = torch.load(checkpoint, weights_only=True)
        masters.restore(state["masters"])
        first, hours = state["step"], state.get("hours", 0.0)
    started_at = time.monotonic()
    for step in range(first, arguments.steps):
        rng = np.random.default_rng((arguments.seed, step))
        seen = data.batch(data.draw(arguments.batch, rng))
        loss, figures = learner.loss(augment(seen.pictures, rng), seen, rng)
        loss.backward()
        norm = masters.step(rate_at(step, arguments.steps, arguments.rate))
        step_count = step + 1
        spent = hours + (time.monotonic() - started_at) / 3600
        if step_count % 25 == 0:
            line = {
                "step": step_count,
                "loss": round(loss.item(), 4),
                "norm": round(norm, 2),
                **figures,
            }
            _log(arguments.out, {**line, "hours": round(spent, 4)})
        if step_count % SAVE_STEPS == 0 or step_count == arguments.steps:
            _log(arguments.out, {"step": step_count, "validation": validate(learner, held_out)})
            save(checkpoint, step_count, spent, masters.state())
    done_file(checkpoint, arguments.steps).touch()


class PerceptionModel:
    """All trained parts: the tower, the readout of cells, and the name finder."""

    def __init__(self, model: Any, reader: CellReader, finder: NameFinder) -> None:
        self.model, self.reader, self.finder = model, reader, finder
        for layer in (reader.layer, finder.layer):
            layer.to(compute_dtype())

    @property
    def modules(self) -> dict[str, Any]:
        """The modules by weight prefix."""
        return {
            "visual": self.model.model.visual,
            "reader": self.reader.layer,
            **self.finder.modules,
        }

    def loss(
        self, pictures: Any, seen: LabelledImages, rng: np.random.Generator
    ) -> tuple[Any, dict[str, float]]:
        """Return the loss of images with labels `seen`, and metrics."""
        tokens = encode_images(self.model, pictures)
        read, figures = self.reader.loss(tokens, seen)
        finding, more = self.finder.loss(tokens[0], seen.places, rng)
        return read + finding, {**figures, **more}


def validate(learner: PerceptionModel, held_out: ImageDataset) -> dict[str, dict[str, float]]:
    """Return the metrics on held-out images, by kind."""
    import torch

    results = {}
    for kind, name in enumerate(KINDS):
        seen = held_out.batch(held_out.of_kind[kind][:96])
        with torch.no_grad():
            _, figures = learner.loss(seen.pictures, seen, np.random.default_rng(kind))
        results[name] = {key: round(value, 3) for key, value in figures.items()}
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
