"""Inputs that failed once, or are of use to begin with: a file each, in a folder by its target."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"


def corpus(name: str) -> list[bytes]:
    """Return the inputs that are kept of a target, in the order of their names."""
    folder = CORPUS / name.replace(" ", "-")
    return [file.read_bytes() for file in sorted(folder.iterdir())] if folder.is_dir() else []
