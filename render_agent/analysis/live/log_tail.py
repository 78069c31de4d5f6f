"""The log of a run followed as it grows: only what is new is read."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from render_agent.errors import RunLogError
from render_agent.runs.log.lines import Line, read_line
from render_agent.text.safe_parse import MisfitError


@dataclass
class Tail:
    """The whole lines of a growing file of JSON lines, each given once.

    A last line that is still being written is left for later.
    """

    path: Path
    _read: int = 0
    _number: int = 0
    _identity: tuple[int, int] | None = field(default=None, repr=False)

    def new_lines(self) -> list[Line]:
        """Return the lines since the last call, none where the file is not there yet.

        RunLogError where a line cannot be read, or the file is no longer the one it was.
        """
        try:
            with self.path.open("rb") as file:
                self._check(file.fileno())
                file.seek(self._read)
                fresh = file.read()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise RunLogError(f"cannot read {self.path}: {error.strerror or error}") from error
        whole = fresh[: fresh.rfind(b"\n") + 1]
        lines = []
        for line in whole.splitlines():
            self._number += 1
            try:
                lines.append(read_line(line))
            except MisfitError as error:
                raise RunLogError(
                    f"{self.path} is damaged: line {self._number} does not fit: {error}"
                ) from error
            except ValueError as error:
                raise RunLogError(
                    f"line {self._number} of {self.path} is not JSON ({error})"
                ) from error
        self._read += len(whole)
        return lines

    def _check(self, descriptor: int) -> None:
        found = os.fstat(descriptor)
        identity = found.st_dev, found.st_ino
        if self._identity not in (None, identity) or found.st_size < self._read:
            raise RunLogError(
                f"{self.path} was replaced or cut while it was read: start view again"
            )
        self._identity = identity
