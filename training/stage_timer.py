"""How long the making takes: noted as it passes, so that not even a kill loses more than a minute."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

PIECE = 60.0
"""Seconds of a task after which they are noted, whether it is done or not."""


class Clock:
    """Notes in a file, a line a piece, from when on and for how many seconds commands ran."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def run(
        self,
        stage: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        held: Sequence[int] = (),
    ) -> None:
        """Run a command of a stage to its end. subprocess.CalledProcessError where it fails.

        held: open files that it inherits.
        """
        began = datetime.now(UTC)
        with subprocess.Popen(command, env=environment, pass_fds=held) as process:
            code = None
            while code is None:
                try:
                    code = process.wait(PIECE)
                except subprocess.TimeoutExpired:
                    pass
                finally:
                    began = self._note(stage, began)
        if code:
            raise subprocess.CalledProcessError(code, command)

    def _note(self, stage: str, began: datetime) -> datetime:
        now = datetime.now(UTC)
        line = {
            "stage": stage,
            "began": began.isoformat(timespec="milliseconds"),
            "seconds": round((now - began).total_seconds(), 3),
        }
        with self.file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return now

    def lines(self) -> list[dict[str, Any]]:
        """Return what was noted: the stage, when a piece of it began, and its seconds."""
        return [json.loads(line) for line in self.file.read_text().splitlines()]


def hours(lines: Iterable[Mapping[str, Any]]) -> float:
    """Return how long at least one of some pieces was under way; what ran side by side counts once."""
    total, reached = timedelta(), datetime.min.replace(tzinfo=UTC)
    pieces = [(datetime.fromisoformat(line["began"]), line["seconds"]) for line in lines]
    for began, seconds in sorted(pieces):
        end = began + timedelta(seconds=seconds)
        total += max(timedelta(), end - max(began, reached))
        reached = max(reached, end)
    return total / timedelta(hours=1)
