"""A question before its options have letters, and the rules by which things may be named."""

from __future__ import annotations

from dataclasses import dataclass

from render_agent.scans.room_truth import RoomTruth

CONFUSED = {
    "chair": {"armchair"},
    "cabinet": {"wardrobe", "dresser", "tv stand", "nightstand", "counter"},
    "dresser": {"cabinet", "tv stand"},
    "wardrobe": {"cabinet"},
    "fan": {"exhaust fan"},
    "basket": {"trash bin"},
    "trash bin": {"basket"},
}
"""What people may also call by a label: where one of these is about, the label is not clear."""

NEVER = {"rug", "curtain", "shoes"}
"""Flat on the floor, in pairs or hanging in parts: where they begin is open to doubt."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A question whose answer is known.

    text: in it `{listed}` stands for the options in their order. answer: a number as text, or the
    text of the right option. options: the texts of all options, empty where a number is wanted.
    labels: the objects that it names.
    """

    type: str
    text: str
    answer: str
    options: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


def clear_labels(truth: RoomTruth) -> list[str]:
    """Return the labels that name a kind of thing in this home without doubt, sorted."""
    return sorted(
        label
        for label in truth.counts
        if label not in NEVER and not CONFUSED.get(label, set()) & truth.counts.keys()
    )


def only_labels(truth: RoomTruth) -> list[str]:
    """Return the labels that name exactly one object without doubt, sorted."""
    return [label for label in clear_labels(truth) if truth.counts[label] == 1]
