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
    """One dialogue.

    Attributes:
        ids: Token ids, (tokens,).
        weights: Loss weight of each token, (tokens,).
        pictures: Rows of its images.
    """

    ids: NDArray[np.int16]
    weights: NDArray[np.float32]
    pictures: tuple[int, ...]


class Dialogue:
    """The dialogues of one folder of training data, by scene.

    Args:
        folder: Folder of training data.
        answer: Id of the token that precedes an answer.
        offset: Added to image rows if several folders share one list.
    """

    def __init__(self, folder: Path, answer: int, offset: int = 0) -> None:
        self.arrays: Dialogues = load_dialogues(folder / DIALOGUES_FILE)
        self.answer = answer
        self.offset = offset
        lengths = np.diff(self.arrays.offsets)
        usable = np.flatnonzero(lengths <= MAX_TOKENS)
        self.scenes: dict[str, list[int]] = {}
        for number in usable:
            self.scenes.setdefault(str(self.arrays.scenes[number]), []).append(int(number))

    def example(self, number: int) -> Example:
        """Return one dialogue."""
        arrays = self.arrays
        part = slice(*arrays.offsets[number : number + 2])
        ids, weights = arrays.ids[part], arrays.learned[part].astype(np.float32)
        answer_starts = np.flatnonzero((ids == self.answer) & arrays.learned[part])
        for start in answer_starts:
            weights[start + 1 : start + 8] *= ANSWER_WEIGHT
        images = arrays.pictures[slice(*arrays.picture_offsets[number : number + 2])]
        return Example(ids, weights, tuple(int(row) + self.offset for row in images))


class Curriculum:
    """Draws the examples of each step; deterministic for a given seed and step."""

    def __init__(
        self,
        shown: Sequence[Dialogue],
        told: Sequence[Dialogue],
        listed: Sequence[Dialogue],
        seed: int,
        chosen: Sequence[Dialogue] = (),
    ) -> None:
        """Take dialogues of the expert, text-only arithmetic, inventories of images, and text-only choices."""
        self.shown, self.seed = list(shown), seed
        self.scenes = [(part, scene) for part in self.shown for scene in part.scenes]
        self.texts, self.lists, self.answers = (
            _all_examples(told),
            _all_examples(listed),
            _all_examples(chosen),
        )

    def dialogues(self, step: int, scenes: int, each: int) -> list[Example]:
        """Draw `each` dialogues (fewer if there are not as many) from each of some scenes."""
        rng = np.random.default_rng((self.seed, step, 0))
        examples = []
        for place in rng.choice(len(self.scenes), min(scenes, len(self.scenes)), replace=False):
            part, scene = self.scenes[int(place)]
            numbers = part.scenes[scene]
            chosen = rng.choice(len(numbers), min(each, len(numbers)), replace=False)
            examples += [part.example(numbers[int(place)]) for place in chosen]
        return examples

    def arithmetic(self, step: int, count: int) -> list[Example]:
        """Draw text-only arithmetic examples."""
        return self._some(self.texts, step, 1, count)

    def inventories(self, step: int, count: int) -> list[Example]:
        """Draw examples about the positions of objects in an image."""
        return self._some(self.lists, step, 2, count)

    def choices(self, step: int, count: int) -> list[Example]:
        """Draw examples of choosing an option."""
        return self._some(self.answers, step, 3, count)

    def _some(
        self, examples: Sequence[tuple[Dialogue, int]], step: int, stream: int, count: int
    ) -> list[Example]:
        if not (count and examples):
            return []
        rng = np.random.default_rng((self.seed, step, stream))
        chosen = [examples[int(place)] for place in rng.integers(len(examples), size=count)]
        return [part.example(number) for part, number in chosen]


def _all_examples(parts_: Iterable[Dialogue]) -> list[tuple[Dialogue, int]]:
    return [
        (part, number) for part in parts_ for numbers in part.scenes.values() for number in numbers
    ]


def split_by_length(examples: Sequence[Example], tokens: int) -> list[list[Example]]:
    """Split examples into parts of similar length with at most `tokens` tokens each, including padding."""
    ordered = sorted(examples, key=lambda example: -len(example.ids))
    groups: list[list[Example]] = []
    for example in ordered:
        if not groups or len(groups[-1][0].ids) * (len(groups[-1]) + 1) > tokens:
            groups.append([])
        groups[-1].append(example)
    return groups


def distinct_images(examples: Sequence[Example]) -> tuple[list[int], dict[int, int]]:
    """Return the distinct images of examples, and the row of each."""
    pictures = sorted({number for example in examples for number in example.pictures})
    return pictures, {number: row for row, number in enumerate(pictures)}


def special_tokens(tokenizer: Any) -> tuple[int, int, int]:
    """Return the ids of the image token, the padding token, and the token that precedes an answer."""
    answer = tokenizer('", "answer": "')["input_ids"]
    if len(answer) != 1:
        raise ValueError('this tokenizer has no single token for the text \'", "answer": "\'')
    return tokenizer.convert_tokens_to_ids("<|image_pad|>"), tokenizer.pad_token_id, answer[0]
