"""One thing that the doctor looked at."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found of one thing.

    part: the heading it stands under. needed: whether a run over the bundled rooms with the
    scripted engine needs it. remedy: what to install or do where it does not work.
    """

    part: str
    name: str
    works: bool
    detail: str
    remedy: str = ""
    needed: bool = False

    @property
    def prevents(self) -> bool:
        """Whether no run at all is possible because of it."""
        return self.needed and not self.works

    def to_json(self) -> dict[str, Any]:
        """Return the finding as `doctor --json` prints it."""
        return asdict(self)
