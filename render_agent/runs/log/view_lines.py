"""A view as lines of `turns.jsonl` have it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.dialogue.state import View
from render_agent.geometry.camera import camera_from_json


def view_to_json(view: View) -> dict[str, Any]:
    """Return a view as a line has it."""
    return {
        "number": view.number,
        "kind": view.kind,
        "file": view.file,
        "camera": view.camera.to_json(),
    }


def view_from_json(data: Mapping[str, Any]) -> View:
    """Return the view that `view_to_json` wrote, of a line that `check_line` takes."""
    return View(data["number"], data["kind"], data["file"], camera_from_json(data["camera"]))
