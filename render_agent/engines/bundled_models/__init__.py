"""The bundled models. Each is a folder in this package, whose name is a value of `--model`."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent

# Notes shown next to the results of each model.
NOTES = {
    "small": "bundled small model, trained on rooms like the bundled ones; for demonstration only",
}


def bundled_model(name: str) -> Path | None:
    """Return the folder of a bundled model, or None if there is no such model.

    The name takes precedence over a directory in the working directory, which is reachable as `./small`.
    """
    return FOLDER / name if name in NOTES else None


def suggest_models() -> str:
    """Return the options for models that run without a download, for error messages."""
    ready = [name for name in NOTES if (FOLDER / name / "config.json").is_file()]
    return " or ".join([*(f"the bundled --model {name}" for name in ready), "--engine scripted"])
