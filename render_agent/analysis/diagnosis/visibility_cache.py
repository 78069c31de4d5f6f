"""The cache of what the views of a run showed, in its report folder: each scene is measured once."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from render_agent.analysis.diagnosis.model import NamedBox, Sighting
from render_agent.analysis.diagnosis.visibility_pass import Shown, Watched, WatchedTurn
from render_agent.errors import RunLogError
from render_agent.system.whole_files import json_lines, read_lines, write_whole

logger = logging.getLogger(__name__)

FILE = "report/diagnosis.jsonl"
"""Where a run folder keeps it."""

FORMAT = 2
"""Raised where what is watched, or how, changes: what an older version kept is then left aside."""


def key_of(shown: Shown, boxes: Iterable[NamedBox] | None) -> str:
    """Return what a question's views and named boxes hash to: what is kept holds for the same key.

    boxes: those that are named, as the files have them; None where the scene is not available.
    """
    views = [
        [(view.number, view.kind, view.camera.to_json()) for view in turn] for turn in shown.views
    ]
    known = None if boxes is None else [astuple(box) for box in boxes]
    text = json.dumps([FORMAT, shown.named, views, known])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_kept(folder: Path) -> dict[str, tuple[str, Watched]]:
    """Return what is kept, with its key, by question; nothing where it cannot be read."""
    file = folder / FILE
    if not file.is_file():
        return {}
    try:
        return {line["id"]: (line["key"], _from_json(line)) for line in read_lines(file)[0]}
    except (RunLogError, KeyError, TypeError, ValueError) as error:
        logger.warning("%s is left aside: %s", file, error)
        return {}


def keep(folder: Path, known: Mapping[str, tuple[str, Watched]]) -> None:
    """Write what was found; where the folder cannot be written nothing is kept."""
    lines = (
        {"id": name, "key": key, **_to_json(watched)} for name, (key, watched) in known.items()
    )
    try:
        write_whole(folder / FILE, json_lines(lines), durable=False)
    except RunLogError as error:
        logger.warning("the diagnosis is not kept: %s", error)


def _to_json(watched: Watched) -> dict[str, Any]:
    return {
        "boxes": [astuple(box) for box in watched.boxes],
        "turns": [
            [turn.coverage, [astuple(sighting) for sighting in turn.sightings]]
            for turn in watched.turns
        ],
    }


def _from_json(line: Mapping[str, Any]) -> Watched:
    return Watched(
        tuple(
            NamedBox(category, number, _tuple(centre), _tuple(size), _tuple(map(_tuple, axes)))
            for category, number, centre, size, axes in line["boxes"]
        ),
        tuple(
            WatchedTurn(tuple(Sighting(*values) for values in sightings), coverage)
            for coverage, sightings in line["turns"]
        ),
    )


def _tuple(values: Iterable[Any]) -> Any:
    return tuple(values)
