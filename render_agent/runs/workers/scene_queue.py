"""The deck: scenes dealt to whoever is free, the largest first, fewer at a time towards the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from math import ceil

MOST_DEATHS = 3
"""Workers that may die with a scene in hand before its questions are given up."""

MOST_IN_A_ROW = 6
"""Workers that may die in one place, one after the other without a turn, before it is closed.

More than MOST_DEATHS, so that a scene or two that kill are known before the place is blamed.
"""

MOST_BATCHES = 8
"""Full batches in one hand at the most, so that a hand stays small beside a large run."""


class Deck:
    """The scenes that are not dealt yet.

    size: gives how many questions of a scene are to be worked on now. A scene that was in the hand
    of a worker that died is dealt alone from then on, after the others, and to another worker where
    there is one: so it shows which scene kills, and which worker dies of any.
    """

    def __init__(self, scenes: Iterable[str], size: Callable[[str], int]) -> None:
        self.size = size
        self.fresh = sorted(scenes, key=lambda scene: (-size(scene), scene))
        self.returned: list[str] = []
        self.deaths: Counter[str] = Counter()
        self._died_on: dict[str, set[int]] = {}

    def __bool__(self) -> bool:
        """Whether a scene is left."""
        return bool(self.fresh or self.returned)

    def deal(self, worker: int, batch_size: int, workers: Collection[int], free: int) -> list[str]:
        """Return the next scenes for a free worker, one of `workers`, of which `free` hold none.

        Empty where nothing is left, or only what another one has to try first.
        """
        if self.fresh:
            questions = sum(map(self.size, (*self.fresh, *self.returned)))
            wanted = share(questions, batch_size, len(workers), free)
            dealt = [self.fresh.pop(0)]
            count = self.size(dealt[0])
            while self.fresh and count + self.size(self.fresh[0]) <= wanted:
                dealt.append(self.fresh.pop(0))
                count += self.size(dealt[-1])
            return dealt
        for scene in sorted(self.returned, key=lambda scene: -self.deaths[scene]):
            died = self._died_on[scene]
            if worker not in died or died >= set(workers):
                self.returned.remove(scene)
                return [scene]
        return []

    def lost(self, worker: int, scenes: Iterable[str]) -> list[str]:
        """Take back the hand of a worker that died; return the scenes that are given up."""
        given_up = []
        for scene in scenes:
            self.deaths[scene] += 1
            self._died_on.setdefault(scene, set()).add(worker)
            if self.deaths[scene] >= MOST_DEATHS:
                given_up.append(scene)
            elif self.size(scene):
                self.returned.append(scene)
        return given_up


def share(questions: int, batch_size: int, workers: int, free: int) -> int:
    """Return how many of `questions` a free worker gets: half its share of what is left.

    Never less than fills its batch, unless others of the `free` workers would get nothing; never
    more than MOST_BATCHES batches.
    """
    half = ceil(questions / (2 * workers))
    filled = min(batch_size, ceil(questions / free))
    return min(max(half, filled), MOST_BATCHES * batch_size)
