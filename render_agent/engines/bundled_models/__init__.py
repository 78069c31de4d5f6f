"""The bundled models: each is a folder beside this file, and `--model` takes its name."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent

NOTES = {
    "small": "by the bundled small model, trained on rooms like the bundled ones: a demonstration",
}
"""What must be said beside the figures of each, by its name."""


def bundled_model(name: str) -> Path | None:
    """Return the folder of a bundled model by its name, None for every other name.

    The name goes before a directory of the working folder; `./small` is that directory.
    """
    return FOLDER / name if name in NOTES else None


def instead() -> str:
    """Return in words which models run without fetching weights."""
    ready = [name for name in NOTES if (FOLDER / name / "config.json").is_file()]
    return " or ".join([*(f"the bundled --model {name}" for name in ready), "--engine scripted"])
