"""VSI-Bench's questions about homes whose truth is known, balanced over their answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from render_agent.scans.room_truth import DATASET, RoomTruth
from render_agent_lab.room_generator.questions.directions import directions
from render_agent_lab.room_generator.questions.draft import Draft
from render_agent_lab.room_generator.questions.measures import (
    counts,
    distances,
    nearest_of_four,
    room_size,
    sizes,
)
from render_agent_lab.room_generator.questions.routes import routes

TURN = (
    "object_counting",
    "object_rel_distance",
    "object_rel_direction_easy",
    "object_abs_distance",
    "route_planning",
    "object_size_estimation",
    "object_rel_direction_medium",
    "object_rel_direction_hard",
    "room_size_estimation",
)
"""The types in the order in which a room is asked about, again and again until it is enough."""


def ask(truths: Sequence[RoomTruth], seed: int, per_room: int) -> list[dict[str, Any]]:
    """Return questions as rows in VSI-Bench's format, at most `per_room` about each home.

    Homes come in their order, types in VSI-Bench's mixture, ids count from 0. The same truths and
    seed give the same rows; what is asked of a home does not depend on those after it.
    """
    desk = _Desk()
    for number, truth in enumerate(truths):
        rng = np.random.default_rng((seed, number, 7))
        drafts = _drafts(truth, rng)
        for draft in desk.choose(drafts, per_room, rng):
            desk.write(truth.scene, draft, rng)
    return desk.rows


def _drafts(truth: RoomTruth, rng: np.random.Generator) -> dict[str, list[Draft]]:
    every = [
        *counts(truth),
        *sizes(truth),
        *room_size(truth),
        *distances(truth),
        *nearest_of_four(truth, rng),
        *directions(truth),
        *routes(truth, rng),
    ]
    return {kind: [draft for draft in every if draft.type == kind] for kind in TURN}


class _Desk:
    """The questions so far and how often every answer and letter was right."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.answers: Counter[tuple[str, str]] = Counter()
        self.letters: Counter[tuple[str, int, str]] = Counter()

    def choose(
        self, drafts: dict[str, list[Draft]], most: int, rng: np.random.Generator
    ) -> list[Draft]:
        """Return drafts of all types in turn: rare answers and objects not yet named go first."""
        left = {
            kind: [candidates[int(i)] for i in rng.permutation(len(candidates))]
            for kind, candidates in drafts.items()
        }
        named: Counter[str] = Counter()
        chosen: list[Draft] = []
        while len(chosen) < most and any(left.values()):
            for kind in TURN:
                if not left[kind] or len(chosen) == most:
                    continue
                best = min(left[kind], key=lambda draft: self._worn(draft, named))
                left[kind].remove(best)
                named.update(best.labels)
                named[best.type + best.answer] += 2
                self.answers.update((best.type, part) for part in _parts(best))
                chosen.append(best)
        return sorted(chosen, key=lambda draft: TURN.index(draft.type))

    def _worn(self, draft: Draft, named: Counter[str]) -> tuple[float, float]:
        """How often its answer was right and its objects were named; fewer is better."""
        parts = _parts(draft)
        times = sum(self.answers[draft.type, part] for part in parts) / max(len(parts), 1)
        worn = sum(named[label] for label in draft.labels) / max(len(draft.labels), 1)
        return times, worn

    def write(self, scene: str, draft: Draft, rng: np.random.Generator) -> None:
        """Append a draft as a row; the right option gets the letter that was right least often."""
        row: dict[str, Any] = {
            "id": len(self.rows),
            "dataset": DATASET,
            "scene_name": scene,
            "question_type": draft.type,
            "question": draft.text,
            "ground_truth": draft.answer,
            "options": None,
        }
        if draft.options:
            options, letter = self._lettered(draft, rng)
            listed = ", ".join(option[3:] for option in options)
            row |= {
                "question": draft.text.replace("{listed}", listed),
                "ground_truth": letter,
                "options": options,
            }
        self.rows.append(row)

    def _lettered(self, draft: Draft, rng: np.random.Generator) -> tuple[list[str], str]:
        count = len(draft.options)
        letters = [chr(ord("A") + index) for index in range(count)]
        order = [letters[int(index)] for index in rng.permutation(count)]
        right = min(order, key=lambda letter: self.letters[draft.type, count, letter])
        self.letters[draft.type, count, right] += 1
        wrong = [option for option in draft.options if option != draft.answer]
        wrong = [wrong[int(index)] for index in rng.permutation(count - 1)]
        texts = iter(wrong)
        options = [
            f"{letter}. {draft.answer if letter == right else next(texts)}" for letter in letters
        ]
        return options, right


def _parts(draft: Draft) -> list[str]:
    """What of an answer is to come up evenly: directions, counts, every turn and how many there are."""
    if draft.type == "route_planning":
        turns = draft.answer.split(", ")
        # a single turn weighs more, so that routes of several are asked for more often
        return [*turns, *[f"{len(turns)} turns"] * max(1, 6 - 3 * len(turns))]
    even = draft.type.startswith("object_rel_direction") or draft.type == "object_counting"
    return [draft.answer] if even else []
