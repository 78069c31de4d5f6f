"""Draws the examples of each training step: dialogues of a few scenes, which share images, and text-only arithmetic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training.dialogue_file import DIALOGUES_FILE, Dialogues, load_dialogues

ANSWER_WEIGHT = 3.0  # loss weight of answer tokens, relative to other reply tokens

MAX_TOKENS = 1200  # tokens; longer dialogues are skipped


@dataclass(frozen=True, eq=False)
class Example:
    """One dialogue."""

    ids: NDArray[np.int16]  # token ids, (tokens,)
    weights: NDArray[np.float32]  # loss weight of each token, (tokens,)
    image_rows: tuple[int, ...]  # rows of its images in the features of all folders


class DialogueDataset:
    """The dialogues of one folder of training data, by scene."""

    def __init__(self, folder: Path, answer_token: int, image_offset: int = 0) -> None:
        self.arrays: Dialogues = load_dialogues(folder / DIALOGUES_FILE)
        self.answer_token = answer_token
        self.image_offset = image_offset
        lengths = np.diff(self.arrays.offsets)
        usable = np.flatnonzero(lengths <= MAX_TOKENS)
        self.scenes: dict[str, list[int]] = {}
        for number in usable:
            self.scenes.setdefault(str(self.arrays.scenes[number]), []).append(int(number))

    def example(self, number: int) -> Example:
        """Return one dialogue."""
        arrays = self.arrays
        span = slice(*arrays.offsets[number : number + 2])
        ids, weights = arrays.ids[span], arrays.learned[span].astype(np.float32)
        answer_starts = np.flatnonzero((ids == self.answer_token) & arrays.learned[span])
        for start in answer_starts:
            weights[start + 1 : start + 8] *= ANSWER_WEIGHT
        rows = arrays.pictures[slice(*arrays.picture_offsets[number : number + 2])]
        return Example(ids, weights, tuple(int(row) + self.image_offset for row in rows))


class Curriculum:
    """Draws the examples of each step; deterministic for a given seed and step."""

    def __init__(
        self,
        dialogues: Sequence[DialogueDataset],
        arithmetic: Sequence[DialogueDataset],
        inventories: Sequence[DialogueDataset],
        choices: Sequence[DialogueDataset],
        seed: int,
    ) -> None:
        self._seed = seed
        self._scenes = [(dataset, scene) for dataset in dialogues for scene in dataset.scenes]
        self._arithmetic = _all_examples(arithmetic)
        self._inventories = _all_examples(inventories)
        self._choices = _all_examples(choices)

    def draw_dialogues(self, step: int, scenes: int, per_scene: int) -> list[Example]:
        """Draw at most `per_scene` dialogues from each of at most `scenes` scenes, without replacement."""
        rng = np.random.default_rng((self._seed, step, 0))
        examples = []
        num_scenes = min(scenes, len(self._scenes))
        for scene_index in rng.choice(len(self._scenes), num_scenes, replace=False):
            dataset, scene = self._scenes[int(scene_index)]
            numbers = dataset.scenes[scene]
            drawn = rng.choice(len(numbers), min(per_scene, len(numbers)), replace=False)
            examples += [dataset.example(numbers[int(index)]) for index in drawn]
        return examples

    def draw_arithmetic(self, step: int, count: int) -> list[Example]:
        """Draw text-only arithmetic examples."""
        return self._draw(self._arithmetic, step, 1, count)

    def draw_inventories(self, step: int, count: int) -> list[Example]:
        """Draw examples about the positions of objects in an image."""
        return self._draw(self._inventories, step, 2, count)

    def draw_choices(self, step: int, count: int) -> list[Example]:
        """Draw examples of choosing an option."""
        return self._draw(self._choices, step, 3, count)

    def _draw(
        self, examples: Sequence[tuple[DialogueDataset, int]], step: int, stream: int, count: int
    ) -> list[Example]:
        if not (count and examples):
            return []
        rng = np.random.default_rng((self._seed, step, stream))
        drawn = [examples[int(index)] for index in rng.integers(len(examples), size=count)]
        return [dataset.example(number) for dataset, number in drawn]


def _all_examples(datasets: Iterable[DialogueDataset]) -> list[tuple[DialogueDataset, int]]:
    return [
        (dataset, number)
        for dataset in datasets
        for numbers in dataset.scenes.values()
        for number in numbers
    ]


def split_by_length(examples: Sequence[Example], max_tokens: int) -> list[list[Example]]:
    """Split examples into groups of similar length with at most `max_tokens` tokens each, including padding."""
    ordered = sorted(examples, key=lambda example: -len(example.ids))
    groups: list[list[Example]] = []
    for example in ordered:
        if not groups or len(groups[-1][0].ids) * (len(groups[-1]) + 1) > max_tokens:
            groups.append([])
        groups[-1].append(example)
    return groups


def distinct_images(examples: Sequence[Example]) -> tuple[list[int], dict[int, int]]:
    """Return the distinct image rows of examples, and the index of each in that list."""
    rows = sorted({row for example in examples for row in example.image_rows})
    return rows, {row: index for index, row in enumerate(rows)}


def special_tokens(tokenizer: Any) -> tuple[int, int, int]:
    """Return the ids of the image token, the padding token, and the token that precedes an answer."""
    answer = tokenizer('", "answer": "')["input_ids"]
    if len(answer) != 1:
        raise ValueError('this tokenizer has no single token for the text \'", "answer": "\'')
    return tokenizer.convert_tokens_to_ids("<|image_pad|>"), tokenizer.pad_token_id, answer[0]
