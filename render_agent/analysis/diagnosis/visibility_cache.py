"""The cache of what the views of a run showed, in its report folder: each scene is measured once."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from render_agent.analysis.diagnosis.model import NamedBox
from render_agent.analysis.diagnosis.visibility_pass import Shown, Watched, WatchedTurn
from render_agent.errors import RunLogError
from render_agent.system.whole_files import json_lines, read_lines, write_whole
from render_agent.text.safe_parse import decode, plain

logger = logging.getLogger(__name__)

FILE = "report/diagnosis.jsonl"
"""Where a run folder keeps it."""

FORMAT = 2
"""Raised where what is watched, or how, changes: what an older version kept is then left aside."""


class KeptLine(Struct, frozen=True):
    """A line of what is kept: of the question `id`, whose views and boxes hash to `key`."""

    id: str
    key: str
    boxes: tuple[NamedBox, ...]
    turns: tuple[WatchedTurn, ...]


def key_of(shown: Shown, boxes: Iterable[NamedBox] | None) -> str:
    """Return what a question's views and named boxes hash to: what is kept holds for the same key.

    boxes: those that are named, as the files have them; None where the scene is not available.
    """
    views = [
        [(view.number, view.kind, plain(view.camera)) for view in turn] for turn in shown.views
    ]
    known = None if boxes is None else plain(tuple(boxes))
    text = json.dumps([FORMAT, shown.named, views, known])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_kept(folder: Path) -> dict[str, tuple[str, Watched]]:
    """Return what is kept, with its key, by question; nothing where it cannot be read."""
    file = folder / FILE
    if not file.is_file():
        return {}
    try:
        lines: list[KeptLine] = read_lines(file, lambda line: decode(line, KeptLine))[0]
    except RunLogError as error:
        logger.warning("%s is left aside: %s", file, error)
        return {}
    return {line.id: (line.key, Watched(line.boxes, line.turns)) for line in lines}


def keep(folder: Path, known: Mapping[str, tuple[str, Watched]]) -> None:
    """Write what was found; where the folder cannot be written nothing is kept."""
    lines = (
        KeptLine(name, key, watched.boxes, watched.turns) for name, (key, watched) in known.items()
    )
    try:
        write_whole(folder / FILE, json_lines(lines), durable=False)
    except RunLogError as error:
        logger.warning("the diagnosis is not kept: %s", error)
