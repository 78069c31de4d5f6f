"""Generates VSI-Bench questions about homes with known ground truth, balanced over their answers."""

from __future__ import annotations

import pkgutil
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from render_agent.scans.room_ground_truth import DATASET, RoomGroundTruth
from render_agent.tasks.question_type import QuestionType
from render_agent.tasks.question_types import all_types, find_type
from render_agent_lab.room_generator.questions.draft import Draft


def generated_types() -> list[QuestionType]:
    """Return the types with a generator, in the order in which they are drawn for a room, repeatedly."""
    kinds = (kind for kind in all_types().values() if kind.generator is not None)
    return sorted(kinds, key=lambda kind: kind.rank)


def balanced_questions(
    truths: Sequence[RoomGroundTruth], seed: int, per_room: int
) -> list[dict[str, Any]]:
    """Return questions in VSI-Bench's row format, at most `per_room` per home.

    Homes keep their order, types follow VSI-Bench's mixture, ids count from 0. The result is deterministic, and
    questions about a home do not depend on later homes.
    """
    balancer = Balancer()
    for number, truth in enumerate(truths):
        rng = np.random.default_rng((seed, number, 7))
        drafts = _drafts(truth, rng)
        for draft in balancer.choose(drafts, per_room, rng):
            balancer.write(truth.scene, draft, rng)
    return balancer.rows


def _drafts(truth: RoomGroundTruth, rng: np.random.Generator) -> dict[str, list[Draft]]:
    return {
        kind.name: pkgutil.resolve_name(str(kind.generator))(truth, rng)
        for kind in generated_types()
    }


class Balancer:
    """The questions so far, and how often each answer and letter was correct."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.answers: Counter[tuple[str, str]] = Counter()
        self.letters: Counter[tuple[str, int, str]] = Counter()

    def choose(
        self, drafts: dict[str, list[Draft]], max_count: int, rng: np.random.Generator
    ) -> list[Draft]:
        """Choose drafts of all types in turn, preferring rare answers and objects not yet named."""
        remaining = {
            kind: [candidates[int(i)] for i in rng.permutation(len(candidates))]
            for kind, candidates in drafts.items()
        }
        named: Counter[str] = Counter()
        chosen: list[Draft] = []
        while len(chosen) < max_count and any(remaining.values()):
            for kind in remaining:
                if not remaining[kind] or len(chosen) == max_count:
                    continue
                best = min(remaining[kind], key=lambda draft: self._usage(draft, named))
                remaining[kind].remove(best)
                named.update(best.labels)
                named[best.type + best.answer] += 2
                self.answers.update(
                    (best.type, part) for part in find_type(best.type).answer_parts(best.answer)
                )
                chosen.append(best)
        return sorted(chosen, key=lambda draft: [*drafts].index(draft.type))

    def _usage(self, draft: Draft, named: Counter[str]) -> tuple[float, float]:
        """Return how often the draft's answer was correct and its objects were named; lower is better."""
        parts = find_type(draft.type).answer_parts(draft.answer)
        usage = sum(self.answers[draft.type, part] for part in parts) / max(len(parts), 1)
        mentions = sum(named[label] for label in draft.labels) / max(len(draft.labels), 1)
        return usage, mentions

    def write(self, scene: str, draft: Draft, rng: np.random.Generator) -> None:
        """Append a draft as a row."""
        self.rows.append({"id": len(self.rows), **self.row_of(scene, draft, rng)})

    def row_of(self, scene: str, draft: Draft, rng: np.random.Generator) -> dict[str, Any]:
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
        correct = min(order, key=lambda letter: self.letters[draft.type, count, letter])
        self.letters[draft.type, count, correct] += 1
        wrong = [option for option in draft.options if option != draft.answer]
        wrong = [wrong[int(index)] for index in rng.permutation(count - 1)]
        texts = iter(wrong)
        options = [
            f"{letter}. {draft.answer if letter == correct else next(texts)}" for letter in letters
        ]
        return options, correct
