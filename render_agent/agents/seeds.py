"""Seeds: whatever is drawn at random in a turn depends on these alone."""

from __future__ import annotations

import hashlib


def turn_seed(seed: int, question_id: str, turn: int) -> int:
    """Return the seed of one turn of one dialogue: it depends on nothing but these three."""
    digest = hashlib.sha256(f"{seed} {question_id} {turn}".encode()).digest()
    return int.from_bytes(digest[:4], "big")
