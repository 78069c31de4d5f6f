"""What is compared: engines, schedules, with and without reuse, batch sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.errors import UsageError

BASELINE_BATCH, BASELINE_TURNS = 16, 4
"""Batch size and batched turns of two-phase, a baseline of the comparison."""

SCHEDULES = {
    "sequential": "one question after the other",
    "two-phase": f"{BASELINE_TURNS} turns of all questions by {BASELINE_BATCH}, then one after the other",
    "lockstep": "every turn of all questions together",
    "refill": "each question at its own pace, as many side by side as the batch holds",
}

REUSES = ("none", "vision", "keys")
"""What the transformers engine keeps over the turns of a question: nothing, image features, or keys and values."""

OWN = "own"
"""The reuse of engines that decide on it themselves."""

ENGINES = ("transformers", "vllm", "openai", "scripted")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to run the same questions. batch_size: a number, or auto."""

    engine: str
    schedule: str
    reuse: str
    batch_size: int | str

    @property
    def name(self) -> str:
        """A label that distinguishes it from the others."""
        reuse = "" if self.reuse == OWN else f", reuse {self.reuse}"
        return f"{self.engine}, {self.schedule}{reuse}, B {self.batch_size}"

    def options(self, max_turns: int) -> dict[str, Any]:
        """Return the options of a run that make this schedule."""
        batched = {"two-phase": BASELINE_TURNS, "lockstep": max_turns}.get(self.schedule, 0)
        alone = self.schedule in ("sequential", "two-phase")
        return {
            "max_batched_turns": min(batched, max_turns),
            "finish_together": 1 if alone else self.batch_size,
            "batch_size": self.batch_size,
        }


def variants(
    engines: Sequence[str],
    schedules: Sequence[str],
    reuses: Sequence[str],
    batch_sizes: Sequence[int | str],
) -> list[Variant]:
    """Return every combination once; sequential and two-phase have batch sizes of their own.

    UsageError if an engine, a schedule or a way of reuse does not exist.
    """
    for given, known in ((engines, ENGINES), (schedules, SCHEDULES), (reuses, REUSES)):
        if wrong := [name for name in given if name not in known]:
            raise UsageError(f"{wrong[0]!r} does not exist: choose from {', '.join(known)}")
    fixed: dict[str, list[int | str]] = {"sequential": [1], "two-phase": [BASELINE_BATCH]}
    every = [
        Variant(engine, schedule, reuse, size)
        for engine in engines
        for reuse in (reuses if engine == "transformers" else [OWN])
        for schedule in schedules
        for size in fixed.get(schedule, batch_sizes)
    ]
    return list(dict.fromkeys(every))
