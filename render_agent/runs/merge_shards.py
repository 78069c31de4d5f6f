"""Shards of one run, made on several machines, joined into the run that they are parts of."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.errors import RunLogError, UsageError, os_errors
from render_agent.options import RunConfig
from render_agent.runs.log.writer import RunLog
from render_agent.runs.read import RunData
from render_agent.util.contained_paths import check_inside
from render_agent.util.display import tracked


def merge(output: Path, shards: Sequence[RunData]) -> tuple[Path, dict[str, Any]]:
    """Write a new run folder with the questions, turns and pictures of all shards.

    Returns the folder and its results. A shard that was not finished stays so: the merged run is
    continued like any other. UsageError where the runs are not all the shards of one run, RunLogError
    where one cannot be read or the folder cannot be written.
    """
    config = _common(shards)
    record = dict(shards[0].record)
    record |= {
        "config": config.to_json(),
        "fingerprint": config.fingerprint,
        "merged": [shard.name for shard in shards],
        "sha256": _joined(shard.record["sha256"] for shard in shards),
    }
    noted = [shard.record for shard in shards if shard.record["choosing"].get("note")]
    if noted:  # boxes may be known of the scenes of some shards only
        record["choosing"] = noted[0]["choosing"]
    questions = _in_order([question for shard in shards for question in shard.questions])
    with closing(RunLog.create(output, "batched", record)) as log:
        for shard in tracked(shards, "copying shards"):
            _copy_pictures(shard.path, log.path)
        os.sync()  # once for all pictures, before a line names them
        for shard in shards:
            for line in shard.lines():
                log.append_line(line)
            log.sync()
        log.write_questions(questions)
        merged = RunData(log.path)
        if not any(state.active for state in merged.states):
            log.write_results(merged.results)
    return log.path, merged.results


def _common(shards: Sequence[RunData]) -> RunConfig:
    """Return the options that all shards share. UsageError where they are not one run's shards."""
    configs = [replace(shard.config, shard=None) for shard in shards]
    parts = [(shard.config.shard or "").partition("/") for shard in shards]
    for shard, config, (part, _, _) in zip(shards, configs, parts, strict=True):
        if not part:
            raise UsageError(f"{shard.name} is no shard: it was not run with --shard I/N")
        if config.fingerprint != configs[0].fingerprint:
            raise UsageError(f"{shard.name} and {shards[0].name} were run with different options")
    count = parts[0][2]
    numbers = sorted(int(part) for part, _, _ in parts)
    if any(of != count for _, _, of in parts) or len(set(numbers)) < len(numbers):
        raise UsageError(
            "the runs are not shards of one division: each part I/N must be there once"
        )
    absent = sorted(set(range(1, int(count) + 1)) - set(numbers))
    if absent:
        raise UsageError(
            f"these shards are missing: {', '.join(f'{part}/{count}' for part in absent)}"
        )
    return configs[0]


def _in_order(questions: list[Question]) -> list[Question]:
    """Return the questions by their ids, where those are numbers as VSI-Bench's are."""
    if all(question.id.isdecimal() for question in questions):
        return sorted(questions, key=lambda question: int(question.id))
    return questions


def _joined(hashes: Any) -> dict[str, Any]:
    joined: dict[str, Any] = {}
    for shard in hashes:
        for name, value in shard.items():
            joined[name] = joined.get(name, {}) | value if isinstance(value, dict) else value
    return joined


def _copy_pictures(source: Path, target: Path) -> None:
    """Link the pictures where one disk holds both folders, else copy them. RunLogError where neither."""
    for picture in (source / "views").rglob("*.png"):
        there = target / picture.relative_to(source)
        check_inside(source, picture)
        with os_errors(RunLogError, f"copy {picture} to {there}"):
            there.parent.mkdir(parents=True, exist_ok=True)
            _link_or_copy(picture, there)


def _link_or_copy(picture: Path, there: Path) -> None:
    if there.exists():  # the opening of a scene that two shards share
        return
    try:
        os.link(picture, there)
    except OSError:  # another disk, or one that knows no links
        shutil.copyfile(picture, there)
