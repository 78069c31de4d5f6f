"""What is compared: engines, schedules, with and without reuse, batch sizes, renderers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.errors import UsageError

BASELINE_BATCH, BASELINE_TURNS = 16, 4
"""Of two-phase, the schedule that others are compared with."""

SCHEDULES = {
    "sequential": "one question after the other",
    "two-phase": f"{BASELINE_TURNS} turns of all questions by {BASELINE_BATCH}, then one after the other",
    "lockstep": "every turn of all questions together",
    "refill": "each question at its own pace, as many side by side as the batch holds",
}
"""The schedules by name, and what they do."""

REUSES = {
    "none": "every turn reads its whole dialogue again",
    "vision": "what the vision tower made of a picture is kept",
    "keys": "keys and values are kept from turn to turn",
}
"""What the transformers engine may keep over the turns of a question."""

OWN = "own"
"""The reuse of the engines that decide on it themselves."""

ENGINES = ("transformers", "vllm", "openai", "scripted")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way of taking the same questions to their end. batch_size: a number, or auto."""

    engine: str
    schedule: str
    reuse: str
    batch_size: int | str
    renderer: str

    @property
    def name(self) -> str:
        """What tells it from the others of a comparison."""
        reuse = "" if self.reuse == OWN else f", reuse {self.reuse}"
        return f"{self.engine}, {self.schedule}{reuse}, B {self.batch_size}, {self.renderer}"

    def options(self, max_turns: int) -> dict[str, Any]:
        """Return the options of a run that make this schedule."""
        batched = {"two-phase": BASELINE_TURNS, "lockstep": max_turns}.get(self.schedule, 0)
        alone = self.schedule in ("sequential", "two-phase")
        return {
            "max_batched_turns": min(batched, max_turns),
            "finish_together": 1 if alone else self.batch_size,
            "batch_size": self.batch_size,
            "renderer": self.renderer,
        }


def variants(
    engines: Sequence[str],
    schedules: Sequence[str],
    reuses: Sequence[str],
    batch_sizes: Sequence[int | str],
    renderers: Sequence[str],
) -> list[Variant]:
    """Return every combination once: sequential and two-phase have batch sizes of their own.

    schedules: names, or NAME/REUSE for one way of reuse only. UsageError where an engine, a schedule or a way of reuse does not exist.
    """
    pairs = [schedule.partition("/")[::2] for schedule in dict.fromkeys(schedules)]
    names, only = [name for name, _ in pairs], [reuse for _, reuse in pairs if reuse]
    for names_given, known in ((engines, ENGINES), (names, SCHEDULES), ([*reuses, *only], REUSES)):
        if wrong := [name for name in names_given if name not in known]:
            raise UsageError(f"{wrong[0]!r} does not exist: choose from {', '.join(known)}")
    fixed: dict[str, list[int | str]] = {"sequential": [1], "two-phase": [BASELINE_BATCH]}
    every = [
        Variant(engine, schedule, reuse, size, renderer)
        for renderer in renderers
        for engine in engines
        for reuse in ([*only, *reuses] if engine == "transformers" else [OWN])
        for schedule, wanted in pairs
        if reuse in ([wanted] if wanted else reuses) or reuse == OWN
        for size in fixed.get(schedule, batch_sizes)
    ]
    return list(dict.fromkeys(every))
