"""Teaches the language model to explore and to answer, from dialogues of the expert and text-only arithmetic.

python -m training.dialogue OUT STAGE --start CHECKPOINT|MODEL --dialogues DIR... --arithmetic DIR... --inventories DIR...
    [--choices DIR...] --steps N [--scenes N --dialogues-per-scene N] [--arithmetic-count N] [--inventory-count N]
    [--choice-count N] [--joint] [--adamw]

Without --joint the vision tower is frozen and its features are read from files; with --joint it is trained too. Starts
from a checkpoint or a shipped model. Writes the checkpoint OUT/STAGE.pt every SAVE_STEPS steps; the same command resumes from it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from training.curriculum import (
    Curriculum,
    DialogueDataset,
    Example,
    distinct_images,
    special_tokens,
    split_by_length,
)
from training.networks import batch_of, predict
from training.optimizer import (
    MasterWeights,
    compute_dtype,
    done_file,
    load_weights,
    rate_at,
    read_weights,
    save,
)

GROUP_TOKENS = 1200  # tokens per forward pass, including padding; small, so that dialogues of different length need little padding

SAVE_STEPS = 500  # steps between checkpoints

# Prefixes of weights pretrained by perception, which take smaller steps.
SLOW_WEIGHTS = ("visual", "text.layers.0.self_attn", "text.layers.0.input_layernorm")


class DialogueTrainer:
    """Accumulates the gradients of a model on training examples."""

    def __init__(self, model: Any, tokenizer: Any, image_features: Any, *, joint: bool) -> None:
        _, self.padding, _ = special_tokens(tokenizer)
        self.model = model
        self.image_features = image_features
        self.joint = joint

    def accumulate_gradients(self, examples: Sequence[Example]) -> dict[str, float]:
        """Add the gradients of the mean loss over some examples; return metrics."""
        if not examples:
            return {}
        import torch

        rows, index_of_row = distinct_images(examples)
        features = self.image_features(rows) if rows else None
        leaves = None
        if features is not None:
            leaves = tuple(part.detach().requires_grad_(self.joint) for part in features)
        total_weight = float(sum(example.weights.sum() for example in examples))
        losses, hits_by_group, answers_by_group = [], [], []
        for group in split_by_length(examples, GROUP_TOKENS):
            loss, hits, is_answer = self._group_loss(group, index_of_row, leaves)
            (loss / total_weight).backward()
            losses.append(loss.item())
            hits_by_group.append(hits)
            answers_by_group.append(is_answer)
        if self.joint and features is not None and leaves is not None:
            torch.autograd.backward(features, [leaf.grad for leaf in leaves])
        all_hits, all_answers = torch.cat(hits_by_group), torch.cat(answers_by_group)
        metrics = {"loss": sum(losses) / total_weight, "right": all_hits.float().mean().item()}
        if all_answers.any():
            metrics["answers"] = all_hits[all_answers].float().mean().item()
        return metrics

    def _group_loss(
        self, examples: Sequence[Example], index_of_row: dict[int, int], leaves: Any
    ) -> tuple[Any, Any, Any]:
        """Return the summed loss, and masks of the correctly predicted tokens and of answer tokens."""
        import torch
        from torch.nn import functional

        batch = batch_of(
            [example.ids for example in examples],
            [example.weights for example in examples],
            [[index_of_row[row] for row in example.image_rows] for example in examples],
            self.padding,
        )
        features = None
        if leaves is not None and len(batch.images):
            indices = torch.from_numpy(batch.images)
            features = tuple(leaf[indices] for leaf in leaves)
        logits, learned = predict(self.model, batch, features)
        targets = torch.from_numpy(batch.ids.ravel())[learned]
        weights = torch.from_numpy(batch.weights.ravel())[learned]
        losses = functional.cross_entropy(logits, targets, reduction="none")
        hits = logits.detach().argmax(-1) == targets
        return (losses * weights).sum(), hits, weights > 1


def main() -> None:
    """Train, or resume training."""
    arguments = _arguments()
    import torch

    from training.shape import new_model
    from training.sight import load_features, make_features
    from training.tokenizer import small_tokenizer

    tokenizer = small_tokenizer()
    model = new_model(tokenizer, arguments.seed)
    visual = model.model.visual
    text = model.model.language_model
    model.to(compute_dtype())
    trained_modules = {"visual": visual, "text": text} if arguments.joint else {"text": text}
    start_weights = read_weights(arguments.start)
    masters = MasterWeights(
        trained_modules,
        decay=0.02,
        slow=SLOW_WEIGHTS,
        factor=arguments.slow_factor,
        muon=not arguments.adamw,
    )
    _initialise(model, masters, start_weights)
    arguments.out.mkdir(parents=True, exist_ok=True)
    checkpoint, first_step, hours_before = arguments.out / f"{arguments.stage}.pt", 0, 0.0
    if checkpoint.is_file():
        state = torch.load(checkpoint, weights_only=True)
        masters.restore(state["masters"])
        first_step, hours_before = state["step"], state["hours"]
    answer_token = special_tokens(tokenizer)[2]
    folders = [*arguments.dialogues, *arguments.inventories]
    features = make_features(model, folders) if arguments.joint else load_features(folders)
    with_images = [
        DialogueDataset(folder, answer_token, offset)
        for folder, offset in zip(folders, features.offsets, strict=True)
    ]
    num_dialogues = len(arguments.dialogues)
    curriculum = Curriculum(
        with_images[:num_dialogues],
        [DialogueDataset(folder, answer_token) for folder in arguments.arithmetic],
        with_images[num_dialogues:],
        [DialogueDataset(folder, answer_token) for folder in arguments.choices],
        arguments.seed,
    )
    trainer = DialogueTrainer(model, tokenizer, features, joint=arguments.joint)
    started_at = time.monotonic()
    for step in range(first_step, arguments.steps):
        dialogues = (
            curriculum.draw_dialogues(step, arguments.scenes, arguments.dialogues_per_scene)
            if arguments.scenes
            else []
        )
        examples_by_kind = {
            "dialogues": dialogues,
            "text": curriculum.draw_arithmetic(step, arguments.arithmetic_count),
            "places": curriculum.draw_inventories(step, arguments.inventory_count),
            "choices": curriculum.draw_choices(step, arguments.choice_count),
        }
        metrics_by_kind = {
            kind: trainer.accumulate_gradients(examples)
            for kind, examples in examples_by_kind.items()
        }
        norm = masters.step(rate_at(step, arguments.steps, arguments.rate))
        completed_steps = step + 1
        hours = hours_before + (time.monotonic() - started_at) / 3600
        if completed_steps % 25 == 0:
            line = {"step": completed_steps, "norm": round(norm, 2), "hours": round(hours, 4)}
            for kind, metrics in metrics_by_kind.items():
                line |= {f"{kind} {name}": round(value, 4) for name, value in metrics.items()}
            print(json.dumps(line), flush=True)
            with checkpoint.with_suffix(".jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        if completed_steps % SAVE_STEPS == 0 or completed_steps == arguments.steps:
            weights = {**start_weights, **masters.copies}
            save(checkpoint, completed_steps, hours, {**masters.state(), "weights": weights})
    done_file(checkpoint, arguments.steps).touch()


def _initialise(model: Any, masters: MasterWeights, weights: dict[str, Any]) -> None:
    """Copy the weights of a checkpoint to the model and its masters, if present."""
    import torch

    load_weights(model, weights)
    with torch.no_grad():
        for key, copy in masters.copies.items():
            if key in weights:
                copy.copy_(weights[key])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("out", type=Path)
    parser.add_argument("stage", help="name of the checkpoint")
    parser.add_argument("--start", type=Path, required=True)
    parser.add_argument("--dialogues", type=Path, nargs="*", default=[])
    parser.add_argument("--arithmetic", type=Path, nargs="*", default=[])
    parser.add_argument("--inventories", type=Path, nargs="*", default=[])
    parser.add_argument("--choices", type=Path, nargs="*", default=[])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--scenes", type=int, default=1)
    parser.add_argument("--dialogues-per-scene", type=int, default=4)
    parser.add_argument("--arithmetic-count", type=int, default=10)
    parser.add_argument("--inventory-count", type=int, default=5)
    parser.add_argument("--choice-count", type=int, default=6)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--slow-factor", type=float, default=0.3)
    parser.add_argument("--joint", action="store_true")
    parser.add_argument(
        "--adamw", action="store_true", help="use AdamW for all weights instead of Muon"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
