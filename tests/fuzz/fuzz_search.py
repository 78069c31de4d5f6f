"""The search for inputs that do not end as they have to: what reaches new lines is kept and changed further."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from fuzz_child import Try
from fuzz_lines import Line
from fuzz_mutations import mutated
from fuzz_targets import Target

PATIENCE = 120
"""Inputs that are tried to make a failing one smaller."""


@dataclass
class Failure:
    """Inputs that fail alike: the smallest known, what is told of it, and how many there were."""

    data: bytes
    told: str
    count: int = 1


@dataclass
class Found:
    """What a search came to. lines: of the package, reached; begun: those that the seeds reach."""

    tried: int = 0
    taken: int = 0
    refused: int = 0
    begun: int = 0
    lines: set[Line] = field(default_factory=set)
    failures: dict[str, Failure] = field(default_factory=dict)
    seconds: float = 0.0
    slowest: float = 0.0
    memory: int = 0


class Search:
    """Looks for failures of one target; the same seed gives the same inputs."""

    def __init__(self, target: Target, seed: int, kept: Sequence[bytes], attempt: Try) -> None:
        self.target = target
        self.found = Found()
        self.pool: list[bytes] = []
        self._attempt = attempt
        self._random = Random(f"{seed} {target.name}")
        began = time.monotonic()
        seeds = target.seeds()
        for data in (*seeds, *kept):
            if self._try(data) or len(self.pool) < len(seeds):
                self.pool.append(data)
        self.found.begun = len(self.found.lines)
        self.found.seconds += time.monotonic() - began

    def step(self) -> None:
        """Try one more input."""
        began = time.monotonic()
        data = mutated(self._random, self.target.form, self.pool)
        if self._try(data):
            self.pool.append(data)
        self.found.seconds += time.monotonic() - began

    def _try(self, data: bytes) -> bool:
        """Try an input; return whether it reached a line that none before it did."""
        found, outcome = self.found, self._attempt(self.target.name, data)
        found.tried += 1
        found.taken += outcome.ended == "taken"
        found.refused += outcome.ended == "refused"
        found.slowest = max(found.slowest, outcome.seconds)
        found.memory = max(found.memory, outcome.memory)
        new = set(outcome.new) - found.lines
        found.lines |= new
        if outcome.fault:
            known = found.failures.get(outcome.fault)
            if known is not None:
                known.count += 1
            else:
                smaller = self._smaller(data, outcome.fault)
                found.failures[outcome.fault] = Failure(smaller, outcome.told)
            return False
        return bool(new)

    def _smaller(self, data: bytes, fault: str) -> bytes:
        """Return the smallest input found that fails alike, by leaving out ever smaller parts."""
        left, part = PATIENCE, max(1, len(data) // 2)
        while left > 0:
            start = 0
            while start < len(data) and left > 0:
                shorter = data[:start] + data[start + part :]
                left -= 1
                if self._attempt(self.target.name, shorter).fault == fault:
                    data = shorter
                else:
                    start += part
            if part == 1:
                break
            part = max(1, part // 2)
        return data
