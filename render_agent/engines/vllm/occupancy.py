"""How many requests were under way, over time."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class Occupancy:
    """Requests × seconds so far. Two readings give the mean number of requests between them."""

    work: float = 0.0
    _noted: float = field(default_factory=time.perf_counter)

    def note(self, running: int) -> float:
        """Add the time since the last note, in which so many ran, and return the work so far."""
        now = time.perf_counter()
        self.work += running * (now - self._noted)
        self._noted = now
        return self.work
