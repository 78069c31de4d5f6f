"""Belief revision: whether a map that was right follows its room when that changes in the midst of a dialogue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from render_agent.beliefs.matching import Boxes, match
from render_agent.dialogue.beliefs import Belief
from render_agent.scene.edits import Edit


@dataclass(frozen=True, slots=True)
class Revision:
    """What became of the changed objects that the last map before the change had right.

    known: how many they are; one that was added counts where there was a map. revised: those that are on the later
    map where they are now, or no more on it, and not where they were. left: those that had a place which they left.
    clung: those of them that are still on the map there.
    """

    known: int
    revised: int
    left: int
    clung: int


def revision(
    before: Belief, now: Belief, old: Boxes, new: Boxes, edits: Sequence[Edit]
) -> Revision | None:
    """Return what became of the edited objects of the named categories, None where a belief has no map.

    before, now: the last belief before the change, and one since. old, new: the boxes before and after. The places that were
    left stand among the true boxes when the later map is matched, so that a believed object stands for what it is nearer to.
    """
    if before.objects is None or now.objects is None:
        return None
    held = match(before, old).found
    known = revised = left = clung = 0
    for edit in edits:
        label = (edit.label or "").lower()
        if edit.verb == "recolour" or label not in {*old, *new}:
            continue
        boxes = list(new.get(label, ()))
        place = None if edit.verb == "remove" else edit.index
        if edit.verb == "copy":
            place = len(boxes) - 1
        elif (label, edit.index) not in held:
            continue
        else:
            boxes.append(old[label][edit.index])
        found = match(now, {label: boxes}).found
        still = edit.verb != "copy" and (label, len(boxes) - 1) in found
        known += 1
        left += edit.verb != "copy"
        clung += still
        revised += not still and (place is None or (label, place) in found)
    return Revision(known, revised, left, clung)
