"""Runs `render-agent` with the small model's wording for every engine, so that it learns from the expert's dialogues.

python -m training.run ARGUMENTS of render-agent...
"""

from __future__ import annotations

from render_agent.__main__ import main
from render_agent.dialogue import wording
from training.wording import FILE


def use_small_wording() -> None:
    """Make the small model's wording the general one in this process."""
    wording.GENERAL_FILE = FILE
    wording.general.cache_clear()


if __name__ == "__main__":
    use_small_wording()
    main()
