"""Which prompts are read in one call, and how many replies are written side by side after a fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Prompt = TypeVar("Prompt")

MOST_PADDING = 1.3
"""How much longer than it is a prompt may be made to fit in with others."""

GROW_AFTER = 256
"""Steps without a fault after which one more quarter is written side by side."""


def alike(
    prompts: Sequence[Prompt], tokens: Callable[[Prompt], int], most: int
) -> list[list[Prompt]]:
    """Return the prompts in groups of similar length, of at most so many tokens with padding.

    A prompt that alone has more is a group of its own.
    """
    groups: list[list[Prompt]] = []
    for prompt in sorted(prompts, key=tokens, reverse=True):
        group = groups[-1] if groups else []
        longest = tokens(group[0]) if group else 0
        fits = longest * (len(group) + 1) <= most
        if group and fits and longest <= MOST_PADDING * tokens(prompt) + 16:
            group.append(prompt)
        else:
            groups.append([prompt])
    return groups


class StepCeiling:
    """How many rows are written together: halved by a fault, grown back slowly."""

    def __init__(self) -> None:
        self.rows: int | None = None
        self._good = 0

    def of(self, rows: int) -> int:
        """Return how many of so many rows are written together."""
        return rows if self.rows is None else min(rows, self.rows)

    def failed(self, rows: int) -> None:
        """So many rows were too many."""
        self.rows, self._good = max(1, rows // 2), 0

    def succeeded(self, rows: int) -> bool:
        """So many rows were written; whether more will be from now on."""
        if self.rows is None or rows < self.rows:
            return False
        self._good += 1
        if self._good < GROW_AFTER:
            return False
        self.rows, self._good = self.rows + max(1, self.rows // 4), 0
        return True
