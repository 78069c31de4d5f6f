"""The user's cache folder, for what is expensive to compute and can be computed again."""

from __future__ import annotations

import os
from pathlib import Path


def user_cache(name: str) -> Path | None:
    """Return the folder `name` in the program's cache, or None if it is not writable."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111
    folder = Path(cache) / "render_agent" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
