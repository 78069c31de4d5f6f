"""Questions after counts, sizes and distances, in VSI-Bench's words."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from render_agent.scans.room_truth import RoomTruth
from render_agent_lab.room_generator.questions.draft import Draft, clear_labels, only_labels

NEAREST, FARTHEST = 0.4, 12.0
"""Distances that are asked for, metres; none of VSI-Bench's is smaller."""
APART = 0.15
"""By how much the distances of any two options differ at least, metres."""
MOST = 12
"""More than these nobody counts."""


def counts(truth: RoomTruth) -> list[Draft]:
    """How many there are of a kind, for kinds of two and more."""
    return [
        Draft(
            "object_counting",
            f"How many {label}(s) are in this room?",
            str(truth.counts[label]),
            labels=(label,),
        )
        for label in clear_labels(truth)
        if 2 <= truth.counts[label] <= MOST
    ]


def sizes(truth: RoomTruth) -> list[Draft]:
    """The longest dimension of an object, in whole centimetres."""
    return [
        Draft(
            "object_size_estimation",
            "What is the length of the longest dimension (length, width, or height) of the"
            f" {label}, measured in centimeters?",
            str(round(truth.only(label).longest)),
            labels=(label,),
        )
        for label in only_labels(truth)
    ]


def room_size(truth: RoomTruth) -> list[Draft]:
    """The floor of all rooms together, in square metres with one decimal."""
    text = (
        "What is the size of this room (in square meters)? \n"
        "If multiple rooms are shown, estimate the size of the combined space."
    )
    return [Draft("room_size_estimation", text, f"{truth.area:.1f}")]


def distances(truth: RoomTruth) -> list[Draft]:
    """How far two objects are apart, in metres with one decimal."""
    drafts = []
    for first, second in combinations(only_labels(truth), 2):
        metres = truth.apart(truth.only(first), truth.only(second))
        if NEAREST <= metres <= FARTHEST:
            drafts.append(
                Draft(
                    "object_abs_distance",
                    "Measuring from the closest point of each object, what is the distance between"
                    f" the {first} and the {second} (in meters)?",
                    f"{metres:.1f}",
                    labels=(first, second),
                )
            )
    return drafts


MOST_OF_FOUR = 60
"""Drafts about the nearest of four kinds, of which few are asked."""


def nearest_of_four(truth: RoomTruth, rng: np.random.Generator) -> list[Draft]:
    """Which of four kinds is the closest to an object; of a kind with several the closest counts."""
    near = {
        label: {
            other: min(
                truth.apart(truth.only(label), thing)
                for thing in truth.objects
                if thing.label == other
            )
            for other in clear_labels(truth)
            if other != label
        }
        for label in only_labels(truth)
    }
    drafts: dict[str, Draft] = {}
    names = sorted(near)
    for _ in range(20 * MOST_OF_FOUR if names else 0):
        target = names[int(rng.integers(len(names)))]
        others = sorted(near[target])
        if len(others) < 4:
            continue
        four = [others[int(index)] for index in rng.choice(len(others), 4, replace=False)]
        metres = sorted(near[target][label] for label in four)
        if metres[0] < APART or min(np.diff(metres)) < APART:
            continue
        best = min(four, key=near[target].__getitem__)
        text = (
            "Measuring from the closest point of each object, which of these objects ({listed}) is"
            f" the closest to the {target}?"
        )
        key = target + best + ",".join(sorted(four))
        drafts[key] = Draft("object_rel_distance", text, best, tuple(four), (target, *four))
        if len(drafts) == MOST_OF_FOUR:
            break
    return list(drafts.values())
