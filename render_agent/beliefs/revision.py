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
    map where they are now, or no more on it, and not where they were. clung: those that are still where they were, or,
    added, not on the map.
    """

    known: int
    revised: int
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
    known = revised = clung = 0
    for edit in edits:
        label = (edit.label or "").lower()
        if edit.verb == "recolour" or label not in {*old, *new}:
            continue
        boxes = list(new.get(label, ()))
        added = edit.verb == "copy"
        if not added and (label, edit.index) not in held:
            continue
        places = boxes if added else [*boxes, old[label][edit.index]]
        found = match(now, {label: places}).found
        newest, place = (label, len(places) - 1), (label, edit.index)
        stays = (newest in found) is not added
        known += 1
        clung += stays
        revised += not stays and (added or edit.verb == "remove" or place in found)
    return Revision(known, revised, clung)
