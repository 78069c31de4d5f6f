"""`--dry-run`: what a run, or resuming one, would do."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from render_agent.dialogue.state import Status
from render_agent.options import RunConfig
from render_agent.runs.build import Parts, build, describe_choosing
from render_agent.runs.preflight import disk_needed, pictures_needed
from render_agent.runs.read import find_run
from render_agent.runs.run_estimate import estimate, sentence
from render_agent.runs.runner import Preview, continued_config, preview
from render_agent.tasks.notes import question_notes
from render_agent.tasks.scan_folders import missing_scans
from render_agent.util.console import plain_console
from render_agent.util.display import counted, duration, size
from render_agent.util.sanitize import json_text


def dry_run(config: RunConfig) -> int:
    """Print what a run would ask and show first; nothing is run, no model is loaded."""
    config = config.absolute()
    parts = build(config)
    shown = _previewed(parts)
    types = Counter(question.type for question in shown.questions)
    missing = [] if parts.blind else missing_scans(shown.questions)
    without = sum(entry.questions for entry in missing)
    needed = disk_needed(parts, shown.questions, shown.bytes_a_pixel)
    drawn = pictures_needed(parts, shown.questions)
    drawing = shown.seconds_a_view * drawn
    cost = estimate(parts, len(shown.questions) - without, shown.messages)
    chosen = describe_choosing(parts, shown.questions)
    notes = [
        *question_notes(config, shown.questions, blind=parts.blind),
        *filter(None, [chosen["note"]]),
    ]
    if config.json:
        summary = {
            "questions": len(shown.questions),
            "types": types,
            "missing": without,
            "missing_scenes": {entry.dataset: entry.scenes for entry in missing},
            "notes": notes,
            "choosing": chosen,
            "pictures_at_most": drawn,
            "messages": shown.messages,
            "pictures": str(shown.folder),
            "disk_bytes": needed,
            "drawing_seconds": drawing,
            "estimate": asdict(cost),
        }
        click.echo(json_text(summary))
        return 0
    console = plain_console()
    scenes = len({question.scene for question in shown.questions})
    scan = "all have a scan" if not without else f"{without} without a scan"
    console.print(
        f"{counted(len(shown.questions), 'question')} about {counted(scenes, 'scene')}, {scan}"
    )
    for entry in missing:
        console.print(f"  no scan in {entry.dataset}: {', '.join(entry.scenes)}", soft_wrap=True)
    for note in notes:
        console.print(f"  {note}", soft_wrap=True)
    for name, count in sorted(types.items()):
        console.print(f"  {name}: {count}")
    if parts.agent.chooses:
        console.print(f"  {_agent_words(chosen)}", soft_wrap=True)
    console.print(
        f"at most {counted(drawn, 'picture')}, {size(needed)} of disk and {duration(drawing)} of drawing (if"
        f" every question takes {counted(config.max_turns, 'turn')}); the model's time comes on top",
        soft_wrap=True,
    )
    if parts.engine.asks_model:
        console.print(sentence(cost), soft_wrap=True)
    for message in shown.messages:
        console.rule(message["role"], align="left")
        for piece in message["content"]:
            words = piece.get("text") or f"[picture {shown.folder / piece['image']}]"
            console.print(words, soft_wrap=True)
    return 0


DRY_RUN = "render-agent-dry-run-"

KEPT_SECONDS = 3600.0
"""How long the pictures of a dry run are kept: the next one removes those that are older."""


def _previewed(parts: Parts) -> Preview:
    """Return the first view and prompt of a run, its pictures in a new temporary folder, which is removed on failure."""
    for old in Path(tempfile.gettempdir()).glob(f"{DRY_RUN}*"):
        with suppress(OSError):
            status = old.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > KEPT_SECONDS:
                shutil.rmtree(old)
    folder = Path(tempfile.mkdtemp(prefix=DRY_RUN))
    try:
        return preview(parts, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _agent_words(chosen: Mapping[str, Any]) -> str:
    """Describe the choice of moves in words."""
    replies = f"{chosen['samples']} replies a turn"
    if chosen["groups"] > 1:
        replies += f" to each of {chosen['groups']} wordings"
    names = ", ".join(entry["name"] for entry in chosen["verifiers"])
    return f"agent {chosen['agent']}: {replies}{f', scored by {names}' if names else ''}"


def dry_continue(output: Path, which: str, changes: Mapping[str, Any]) -> int:
    """Print what going on with a run would do; nothing is run or written, no model is loaded."""
    folder = find_run(output, which)
    config = continued_config(folder, changes)
    states = folder.states if folder.has_questions else []
    failed = sum(state.status is Status.FAILED for state in states)
    left = failed + sum(state.active for state in states)
    turns = sum(len(state.turns) for state in states)
    if config.json:
        counts = {"questions": len(states), "active": left, "failed": failed, "turns": turns}
        click.echo(json_text({"run": str(folder.path), **counts}))
        return 0
    console = plain_console()
    if not folder.has_questions:
        console.print(f"{folder.name} has no questions yet: they would be chosen first")
    elif folder.finished and not left:
        console.print(f"{folder.name} is complete: nothing is left to do")
    else:
        console.print(
            f"{folder.name} has {turns} turns of {len(states)} questions: it would go on with {left} of them"
            + (f", of which {failed} failed" if failed else ""),
            soft_wrap=True,
        )
    return 0
