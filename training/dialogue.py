"""Teaches the language model to explore and to answer, from dialogues of the expert and text-only arithmetic.

python -m training.dialogue OUT STAGE --start CHECKPOINT|MODEL --dialogues DIR... --text DIR... --inventories DIR...
    [--choices DIR...] --steps N [--scenes N --each N --texts N --lists N --chosen N] [--joint] [--adamw]

Without --joint the vision tower is frozen and its features are read from files; with --joint it is trained too. Starts
from a checkpoint or a shipped model. Writes the checkpoint OUT/STAGE.pt every SAVE_STEPS steps; the same command resumes from it.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from training.curriculum import (
    Curriculum,
    Dialogue,
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

PART_TOKENS = 1200  # tokens per forward pass, including padding; small, so that dialogues of different length need little padding

SAVE_STEPS = 500  # steps between checkpoints

# Prefixes of weights pretrained by perception, which take smaller steps.
SLOW_WEIGHTS = ("visual", "text.layers.0.self_attn", "text.layers.0.input_layernorm")


class DialogueTrainer:
    """Accumulates the gradients of a model on training examples.

    Args:
        model: The model to train.
        tokenizer: The small model's tokenizer.
        seen: Returns the features of images by row; with `joint`, attached to the tower's graph.
        joint: Whether the vision tower is trained too.
    """

    def __init__(self, model: Any, tokenizer: Any, seen: Any, *, joint: bool) -> None:
        _, self.padding, _ = special_tokens(tokenizer)
        self.model = model
        self.seen = seen
        self.joint = joint

    def gather(self, examples: Sequence[Example]) -> dict[str, float]:
        """Add the gradients of the mean loss over some examples; return metrics."""
        if not examples:
            return {}
        import torch

        pictures, rows = distinct_images(examples)
        features = self.seen(pictures) if pictures else None
        leaves = None
        if features is not None:
            leaves = tuple(part.detach().requires_grad_(self.joint) for part in features)
        total = float(sum(example.weights.sum() for example in examples))
        losses, right, answers = [], [], []
        for group in split_by_length(examples, PART_TOKENS):
            loss, hits, answered = self._part(group, rows, leaves)
            (loss / total).backward()
            losses.append(loss.item())
            right += [hits]
            answers += [answered]
        if self.joint and features is not None and leaves is not None:
            torch.autograd.backward(features, [leaf.grad for leaf in leaves])
        hits_all, is_answer = torch.cat(right), torch.cat(answers)
        figures = {"loss": sum(losses) / total, "right": hits_all.float().mean().item()}
        if is_answer.any():
            figures["answers"] = hits_all[is_answer].float().mean().item()
        return figures

    def _part(
        self, examples: Sequence[Example], rows: dict[int, int], leaves: Any
    ) -> tuple[Any, Any, Any]:
        import torch
        from torch.nn import functional

        batch = batch_of(
            [example.ids for example in examples],
            [example.weights for example in examples],
            [[rows[number] for number in example.pictures] for example in examples],
            self.padding,
        )
        features = None
        if leaves is not None and len(batch.images):
            which = torch.from_numpy(batch.images)
            features = tuple(leaf[which] for leaf in leaves)
        scores, learned = predict(self.model, batch, features)
        truth = torch.from_numpy(batch.ids.ravel())[learned]
        weights = torch.from_numpy(batch.weights.ravel())[learned]
        losses = functional.cross_entropy(scores, truth, reduction="none")
        hits = scores.detach().argmax(-1) == truth
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
    learning = {"visual": visual, "text": text} if arguments.joint else {"text": text}
    start_weights = read_weights(arguments.start)
    masters = MasterWeights(
        learning, decay=0.02, slow=SLOW_WEIGHTS, factor=arguments.slower, muon=not arguments.adamw
    )
    _initialise(model, masters, start_weights)
    arguments.out.mkdir(parents=True, exist_ok=True)
    checkpoint, first, hours = arguments.out / f"{arguments.stage}.pt", 0, 0.0
    if checkpoint.is_file():
        state = torch.load(checkpoint, weights_only=True)
        masters.restore(state["masters"])
        first, hours = state["step"], state["hours"]
    answer = special_tokens(tokenizer)[2]
    folders = [*arguments.dialogues, *arguments.inventories]
    seen = make_features(model, folders) if arguments.joint else load_features(folders)
    image_dialogues = [
        Dialogue(*arguments_of_folder)
        for arguments_of_folder in zip(folders, repeat(answer), seen.offsets)
    ]
    text_dialogues, choices = (
        [Dialogue(folder, answer) for folder in folders_of_kind]
        for folders_of_kind in (arguments.text, arguments.choices)
    )
    split = len(arguments.dialogues)
    curriculum = Curriculum(
        image_dialogues[:split], text_dialogues, image_dialogues[split:], arguments.seed, choices
    )
    lesson = DialogueTrainer(model, tokenizer, seen, joint=arguments.joint)
    started_at = time.monotonic()
    for step in range(first, arguments.steps):
        figures = lesson.gather(
            curriculum.dialogues(step, arguments.scenes, arguments.each) if arguments.scenes else []
        )
        arithmetic = lesson.gather(curriculum.arithmetic(step, arguments.texts))
        places = lesson.gather(curriculum.inventories(step, arguments.lists))
        chosen = lesson.gather(curriculum.choices(step, arguments.chosen))
        norm = masters.step(rate_at(step, arguments.steps, arguments.rate))
        done_steps = step + 1
        spent = hours + (time.monotonic() - started_at) / 3600
        if done_steps % 25 == 0:
            line = {
                "step": done_steps,
                "norm": round(norm, 2),
                "hours": round(spent, 4),
            }
            parts_ = {"dialogues": figures, "text": arithmetic, "places": places, "choices": chosen}
            for part, values in parts_.items():
                line |= {f"{part} {key}": round(value, 4) for key, value in values.items()}
            print(json.dumps(line), flush=True)
            with checkpoint.with_suffix(".jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
        if done_steps % SAVE_STEPS == 0 or done_steps == arguments.steps:
            weights = {**start_weights, **masters.copies}
            save(checkpoint, done_steps, spent, {**masters.state(), "weights": weights})
    done_file(checkpoint, arguments.steps).touch()


def _initialise(model: Any, masters: MasterWeights, weights: dict[str, Any]) -> None:
    """Copy the weights of a checkpoint to the model and its masters, where present."""
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
    parser.add_argument("--text", type=Path, nargs="*", default=[])
    parser.add_argument("--inventories", type=Path, nargs="*", default=[])
    parser.add_argument("--choices", type=Path, nargs="*", default=[])
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--scenes", type=int, default=1)
    parser.add_argument("--each", type=int, default=4)
    parser.add_argument("--texts", type=int, default=10)
    parser.add_argument("--lists", type=int, default=5)
    parser.add_argument("--chosen", type=int, default=6)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--slower", type=float, default=0.3)
    parser.add_argument("--joint", action="store_true")
    parser.add_argument(
        "--adamw", action="store_true", help="use AdamW for all weights instead of Muon"
    )
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
