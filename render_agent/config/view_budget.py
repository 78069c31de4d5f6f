"""How many views a question is shown, by who chooses them, and of which kinds the first are."""

from __future__ import annotations

from collections.abc import Sequence

from render_agent.errors import UsageError

FIXED = {"none": 0, "start": 1, "four": 4, "top": 1}
"""Views that do not depend on the turns."""

SHARED = ("none", "start", "four", "top", "tour")
"""Policies whose views are the same for all questions of a scene."""

WORDS = {
    "start": "the first one alone",
    "four": "the first one and what is left, right and behind of it",
    "top": "the map alone",
    "random-walk": "a random walk of {count}",
    "tour": "a tour of {count} that covers the room",
    "oracle": "{count} that look at the objects named, by boxes that are known",
}
"""What is shown where the model does not choose it."""


def opening_kinds(views: str, kinds: Sequence[str]) -> tuple[str, ...]:
    """Return the kinds of the first views, as `--views` and `--kinds` have them, in their order.

    Those of a free dialogue are the map and the first view, where they are allowed, and the tours, walks
    and looks that are compared with it begin alike. UsageError where a view is wanted whose kind is
    left out.
    """
    if views == "none":
        return ()
    if views == "free":
        return tuple(kind for kind in ("top", "ego") if kind in kinds) or tuple(kinds[:1])
    needed = "top" if views == "top" else "ego"
    if needed not in kinds:
        raise UsageError(f"--views {views} shows views of the kind {needed}: add it to --kinds")
    if views in FIXED:
        return (needed,)
    return tuple(kind for kind in ("top", "ego") if kind in kinds)


def views_at_most(views: str, kinds: Sequence[str], max_turns: int) -> int:
    """Return how many views a question is shown at the most: for free and its equals those of all turns."""
    if views in FIXED:
        return FIXED[views]
    return len(opening_kinds(views, kinds)) + max_turns - 1


def views_note(views: str, kinds: Sequence[str], max_turns: int) -> str | None:
    """Return what must be said beside every figure of a run, None where the model chooses its views."""
    if views == "free":
        return None
    if views == "none":
        return "blind: the model was shown nothing (--views none)"
    count = views_at_most(views, kinds, max_turns)
    words = WORDS[views].format(count=f"{count} picture{'s' if count > 1 else ''}")
    return f"views: {words}, not chosen by the model (--views {views})"
