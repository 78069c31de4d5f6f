"""The variants to compare: engine, schedule, reuse and batch size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.errors import UsageError

BASELINE_BATCH, BASELINE_TURNS = 16, 4  # batch size and batched turns of the two-phase baseline

SCHEDULES = {
    "sequential": "one question at a time",
    "two-phase": f"{BASELINE_TURNS} batched turns ({BASELINE_BATCH} questions per batch), then one question at a time",
    "lockstep": "the same turn of all questions together",
    "refill": "each question at its own pace, refilling the batch as questions finish",
}

REUSES = ("none", "keys")  # what the transformers engine caches between turns

OWN = "own"  # reuse of engines that manage their cache themselves

ENGINES = ("transformers", "vllm", "openai", "scripted")


@dataclass(frozen=True, slots=True)
class Variant:
    """A way to run the same questions. `batch_size` is a number or "auto"."""

    engine: str
    schedule: str
    reuse: str
    batch_size: int | str

    @property
    def name(self) -> str:
        """A unique label."""
        reuse = "" if self.reuse == OWN else f", reuse {self.reuse}"
        return f"{self.engine}, {self.schedule}{reuse}, B {self.batch_size}"

    def options(self, max_turns: int) -> dict[str, Any]:
        """Return the run options that produce this schedule."""
        batched_turns = {"two-phase": BASELINE_TURNS, "lockstep": max_turns}.get(self.schedule, 0)
        is_sequential = self.schedule in ("sequential", "two-phase")
        return {
            "max_batched_turns": min(batched_turns, max_turns),
            "finish_together": 1 if is_sequential else self.batch_size,
            "batch_size": self.batch_size,
        }


def make_variants(
    engines: Sequence[str],
    schedules: Sequence[str],
    reuses: Sequence[str],
    batch_sizes: Sequence[int | str],
) -> list[Variant]:
    """Return every combination once; sequential and two-phase use fixed batch sizes.

    Raises UsageError if an engine, schedule or reuse is unknown.
    """
    for names, valid_names in ((engines, ENGINES), (schedules, SCHEDULES), (reuses, REUSES)):
        if wrong := [name for name in names if name not in valid_names]:
            raise UsageError(f"unknown variant {wrong[0]!r}. Choose from {', '.join(valid_names)}.")
    fixed_sizes: dict[str, list[int | str]] = {"sequential": [1], "two-phase": [BASELINE_BATCH]}
    variants = [
        Variant(engine, schedule, reuse, size)
        for engine in engines
        for reuse in (reuses if engine == "transformers" else [OWN])
        for schedule in schedules
        for size in fixed_sizes.get(schedule, batch_sizes)
    ]
    return list(dict.fromkeys(variants))
