"""What tests are made of: scans, scenes, rooms, runs, replies, small models, servers and pages."""

from pathlib import Path

TREE = Path(__file__).parents[2]
"""The project's folder."""
