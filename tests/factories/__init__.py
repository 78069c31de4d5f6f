"""Factories for tests: scans, scenes, rooms, runs, replies, small models, servers and pages."""

from pathlib import Path

# The repository root.
TREE = Path(__file__).parents[2]
