"""Homes that several tests look at, built once: one of every kind, and some again."""

from functools import cache

from render_agent.rooms.annotate import truth_of
from render_agent.rooms.build import build_home

COARSE = 0.3
"""Metres between vertices: only the mesh differs from that of a dense home."""

MADE = [*((5, n) for n in range(8)), *((6, n) for n in (0, 1, 3))]
"""Seeds and numbers."""


@cache
def made_homes():
    """Return homes by (seed, number)."""
    return {(seed, n): build_home(seed, n, COARSE) for seed, n in MADE}


@cache
def made_truths():
    """Return what is true of them, by (seed, number)."""
    return {key: truth_of(home, f"home{key[0]}-{key[1]}") for key, home in made_homes().items()}
