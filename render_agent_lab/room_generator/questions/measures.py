"""Questions about counts, sizes and distances, with VSI-Bench's text."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from render_agent.tasks.boxes.room_ground_truth import RoomGroundTruth
from render_agent_lab.room_generator.questions.draft import Draft, clear_labels, only_labels

# Range of distances asked for, in metres; VSI-Bench has none smaller.
MIN_DISTANCE, MAX_DISTANCE = 0.4, 12.0
MIN_DIFFERENCE = 0.15  # minimum metres between the distances of any two options
MAX_COUNT = 12  # larger counts are not asked for


def counting_questions(truth: RoomGroundTruth, _: np.random.Generator) -> list[Draft]:
    """Return counting questions about labels with at least two objects."""
    return [
        Draft(
            "object_counting",
            f"How many {label}(s) are in this room?",
            str(truth.counts[label]),
            labels=(label,),
        )
        for label in clear_labels(truth)
        if 2 <= truth.counts[label] <= MAX_COUNT
    ]


def sizes(truth: RoomGroundTruth, _: np.random.Generator) -> list[Draft]:
    """Return questions about the longest dimension of an object, in whole centimetres."""
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


def room_size(truth: RoomGroundTruth, _: np.random.Generator) -> list[Draft]:
    """Return the question about the total floor area, in square metres with one decimal; none if it is unknown."""
    if not truth.rooms:
        return []
    text = (
        "What is the size of this room (in square meters)? \n"
        "If multiple rooms are shown, estimate the size of the combined space."
    )
    return [Draft("room_size_estimation", text, f"{truth.area:.1f}")]


def distance_questions(truth: RoomGroundTruth, _: np.random.Generator) -> list[Draft]:
    """Return questions about the distance of two objects, in metres with one decimal."""
    drafts = []
    for first, second in combinations(only_labels(truth), 2):
        metres = truth.apart(truth.only(first), truth.only(second))
        if MIN_DISTANCE <= metres <= MAX_DISTANCE:
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


MAX_DRAFTS = 60  # drafts about the nearest of four labels, of which only a few are used


def nearest_of_four(truth: RoomGroundTruth, rng: np.random.Generator) -> list[Draft]:
    """Return questions about which of four labels is closest to an object, counting its closest instance."""
    distances = {
        label: {
            other: min(
                truth.apart(truth.only(label), entry)
                for entry in truth.objects
                if entry.label == other
            )
            for other in clear_labels(truth)
            if other != label
        }
        for label in only_labels(truth)
    }
    drafts: dict[str, Draft] = {}
    names = sorted(distances)
    for _ in range(20 * MAX_DRAFTS if names else 0):
        target = names[int(rng.integers(len(names)))]
        candidates = sorted(distances[target])
        if len(candidates) < 4:
            continue
        four = [candidates[int(index)] for index in rng.choice(len(candidates), 4, replace=False)]
        metres = sorted(distances[target][label] for label in four)
        if metres[0] < MIN_DIFFERENCE or min(np.diff(metres)) < MIN_DIFFERENCE:
            continue
        best = min(four, key=distances[target].__getitem__)
        text = (
            "Measuring from the closest point of each object, which of these objects ({listed}) is"
            f" the closest to the {target}?"
        )
        key = target + best + ",".join(sorted(four))
        drafts[key] = Draft("object_rel_distance", text, best, tuple(four), (target, *four))
        if len(drafts) == MAX_DRAFTS:
            break
    return list(drafts.values())
