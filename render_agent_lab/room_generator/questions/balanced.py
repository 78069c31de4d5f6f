"""Generates VSI-Bench questions about rooms with known ground truth, balanced over their answers."""

from __future__ import annotations

import pkgutil
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from render_agent.tasks.boxes.room_ground_truth import DATASET, RoomGroundTruth
from render_agent.tasks.question_type import QuestionType
from render_agent.tasks.question_types import all_types
from render_agent_lab.room_generator.questions.draft import Draft


def generated_types() -> list[QuestionType]:
    return [kind for kind in all_types().values() if kind.generator is not None]


def balanced_questions(
    truths: Sequence[RoomGroundTruth],
    seed: int,
    per_type: int,  # maximum number of questions per room and type
    types: Sequence[QuestionType] | None = None,
) -> list[dict[str, Any]]:
    """Return questions in VSI-Bench's row format without ids, by room and type.

    Each room and type has its own random stream, and each type its own balance, so questions depend neither on later
    rooms nor on the other types.
    """
    balancers = [Balancer(kind) for kind in types or generated_types()]
    return [
        row
        for number, truth in enumerate(truths)
        for balancer in balancers
        for row in balancer.questions(truth, balancer.stream(seed, number), per_type)
    ]


class Balancer:
    """How often each answer and letter of a question type was correct so far."""

    def __init__(self, kind: QuestionType) -> None:
        self.kind = kind
        self._generate = pkgutil.resolve_name(str(kind.generator))
        self._answers: Counter[str] = Counter()
        self._letters: Counter[tuple[int, str]] = Counter()

    def stream(self, seed: int, room: int) -> np.random.Generator:
        return np.random.default_rng((seed, room, zlib.crc32(self.kind.name.encode())))

    def questions(
        self, truth: RoomGroundTruth, rng: np.random.Generator, max_count: int
    ) -> list[dict[str, Any]]:
        """Return questions about a room, preferring rare answers and objects not yet named."""
        drafts: list[Draft] = self._generate(truth, rng)
        remaining = [drafts[int(index)] for index in rng.permutation(len(drafts))]
        named: Counter[str] = Counter()
        rows: list[dict[str, Any]] = []
        while remaining and len(rows) < max_count:
            draft = min(remaining, key=lambda draft: self._usage(draft, named))
            remaining.remove(draft)
            named.update(draft.labels)
            self._answers.update(self.kind.answer_parts(draft.answer))
            rows.append(self._row_of(truth.scene, draft, rng))
        return rows

    def _usage(self, draft: Draft, named: Counter[str]) -> tuple[float, float]:
        """Return how often the draft's answer was correct and its objects were named; lower is better."""
        parts = self.kind.answer_parts(draft.answer)
        usage = sum(self._answers[part] for part in parts) / max(len(parts), 1)
        mentions = sum(named[label] for label in draft.labels) / max(len(draft.labels), 1)
        return usage, mentions

    def _row_of(self, scene: str, draft: Draft, rng: np.random.Generator) -> dict[str, Any]:
        """Return a draft as a row; the correct option gets the letter that was correct least often."""
        row: dict[str, Any] = {
            "dataset": DATASET,
            "scene_name": scene,
            "question_type": draft.type,
            "question": draft.text,
            "ground_truth": draft.answer,
            "options": None,
        }
        if draft.options:
            options, letter = self._add_letters(draft, rng)
            listed = ", ".join(option[3:] for option in options)
            row |= {
                "question": draft.text.replace("{listed}", listed),
                "ground_truth": letter,
                "options": options,
            }
        return row

    def _add_letters(self, draft: Draft, rng: np.random.Generator) -> tuple[list[str], str]:
        count = len(draft.options)
        letters = [chr(ord("A") + index) for index in range(count)]
        order = [letters[int(index)] for index in rng.permutation(count)]
        correct = min(order, key=lambda letter: self._letters[count, letter])
        self._letters[count, correct] += 1
        wrong = [option for option in draft.options if option != draft.answer]
        wrong = [wrong[int(index)] for index in rng.permutation(count - 1)]
        texts = iter(wrong)
        options = [
            f"{letter}. {draft.answer if letter == correct else next(texts)}" for letter in letters
        ]
        return options, correct
