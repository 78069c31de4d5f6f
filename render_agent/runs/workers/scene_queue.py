"""The queue of scenes: handed to whoever is free, the largest first, fewer at a time towards the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from math import ceil

MAX_DEATHS_PER_SCENE = 3
"""Workers that may die with a scene before its questions are given up."""

MAX_DEATHS_IN_A_ROW = 6
"""Workers that may die in one place, one after the other without a turn, before it is closed.

More than MAX_DEATHS_PER_SCENE, so that a scene or two that kill are known before the place is blamed.
"""

MAX_BATCHES_PER_TASK = 8
"""Full batches in one task at the most, so that a task stays small beside a large run."""


class SceneQueue:
    """The scenes that no worker has.

    size: gives how many questions of a scene are to be worked on now. A scene whose worker
    died is handed out alone from then on, after the others, and to another worker where there is
    one: so it shows which scene kills, and which worker dies of any.
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

    def take(self, worker: int, batch_size: int, workers: Collection[int], free: int) -> list[str]:
        """Return the next scenes for a free worker, one of `workers`, of which `free` hold none.

        Empty where nothing is left, or only what another one has to try first.
        """
        if self.fresh:
            questions = sum(map(self.size, (*self.fresh, *self.returned)))
            wanted = share(questions, batch_size, len(workers), free)
            taken = [self.fresh.pop(0)]
            count = self.size(taken[0])
            while self.fresh and count + self.size(self.fresh[0]) <= wanted:
                taken.append(self.fresh.pop(0))
                count += self.size(taken[-1])
            return taken
        for scene in sorted(self.returned, key=lambda scene: -self.deaths[scene]):
            died = self._died_on.get(scene, set())
            if worker not in died or died >= set(workers):
                self.returned.remove(scene)
                return [scene]
        return []

    def give_back(self, worker: int, scenes: Iterable[str]) -> list[str]:
        """Take back the scenes of a worker that died; return the scenes that are given up."""
        given_up = []
        for scene in scenes:
            self.deaths[scene] += 1
            self._died_on.setdefault(scene, set()).add(worker)
            if self.deaths[scene] >= MAX_DEATHS_PER_SCENE:
                given_up.append(scene)
            elif self.size(scene):
                self.returned.append(scene)
        return given_up

    def put_back(self, scenes: Iterable[str]) -> None:
        """Take back scenes that are not to blame for what became of their worker."""
        waiting = {*self.fresh, *self.returned}
        self.returned += [scene for scene in scenes if scene not in waiting and self.size(scene)]


def share(questions: int, batch_size: int, workers: int, free: int) -> int:
    """Return how many of `questions` a free worker gets: half its share of what is left.

    Never less than fills its batch, unless others of the `free` workers would get nothing; never
    more than MAX_BATCHES_PER_TASK batches.
    """
    half = ceil(questions / (2 * workers))
    filled = min(batch_size, ceil(questions / free))
    return min(max(half, filled), MAX_BATCHES_PER_TASK * batch_size)
