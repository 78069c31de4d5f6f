"""A question before its options get letters, and rules for unambiguous labels."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.tasks.boxes.room_ground_truth import RoomGroundTruth
from render_agent_lab.room_generator.floor_plan.walkway import HEAD

# labels that people may confuse: a label is ambiguous if the home also has one of these
AMBIGUOUS_LABELS = {
    "chair": {"armchair"},
    "cabinet": {"wardrobe", "dresser", "tv stand", "nightstand", "counter"},
    "dresser": {"cabinet", "tv stand"},
    "wardrobe": {"cabinet"},
    "fan": {"exhaust fan"},
    "basket": {"trash bin"},
    "trash bin": {"basket"},
}

# Flat, in pairs or in parts: their extent is debatable.
EXCLUDED_LABELS = {"rug", "curtain", "shoes"}


@dataclass(frozen=True, slots=True)
class Draft:
    """A question with a known answer."""

    type: str
    text: str  # question text; `{listed}` is replaced by the options in order.
    answer: str  # A number as text, or the text of the correct option
    options: tuple[str, ...] = ()  # texts of all options; empty for numeric questions.
    labels: tuple[str, ...] = ()  # the objects named


def clear_labels(truth: RoomGroundTruth) -> list[str]:
    """Return the labels that are unambiguous in this home, sorted."""
    return sorted(
        truth.counts.keys() - {label for group in unused_labels(truth).values() for label in group}
    )


def unused_labels(truth: RoomGroundTruth) -> dict[str, list[str]]:
    """Return the labels that no question names, by reason."""
    unused: dict[str, list[str]] = {}
    for label in sorted(truth.counts):
        if label in EXCLUDED_LABELS:
            unused.setdefault("their extent is debatable", []).append(label)
        elif others := sorted(AMBIGUOUS_LABELS.get(label, set()) & truth.counts.keys()):
            reason = f"could be confused with {' or '.join(others)}"
            unused.setdefault(reason, []).append(label)
    return unused


def is_overhead(truth: RoomGroundTruth, label: str) -> bool:
    """Return True if one cannot stand by the only object with this label, because it hangs above head height."""
    bottom = truth.only(label).box.bounds[0, 2]
    floor = min(entry.box.bounds[0, 2] for entry in truth.objects)
    return bool(bottom - floor > HEAD)


def only_labels(truth: RoomGroundTruth) -> list[str]:
    """Return the unambiguous labels with exactly one object, sorted."""
    return [label for label in clear_labels(truth) if truth.counts[label] == 1]
