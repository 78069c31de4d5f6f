"""The small model's wording, which is independent of the wording for other models."""

from __future__ import annotations

from functools import cache

from render_agent.dialogue.wording import FILE_NAME, Wording, load_wording
from render_agent.engines.bundled_models import FOLDER

FILE = FOLDER / "small" / FILE_NAME


@cache
def small_wording() -> Wording:
    """Return the wording of the bundled small model."""
    return load_wording(FILE)
