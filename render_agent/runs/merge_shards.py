"""Merges the shards of a run, possibly made on several machines, into one run."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.errors import RunLogError, UsageError, os_errors
from render_agent.options import RunConfig
from render_agent.runs.inputs import (
    INPUT_NOUNS,
    MACHINE,
    OTHER_MACHINES,
    QUESTIONS,
    add_machine,
    differing_inputs,
)
from render_agent.runs.log.lines import questions_text
from render_agent.runs.log.lock import LOCK
from render_agent.runs.log.schema import FORMAT
from render_agent.runs.log.writer import RunLog, new_folder
from render_agent.runs.read import RunData
from render_agent.util.atomic_files import make_folders, sync_folder, write_errors
from render_agent.util.contained_paths import check_inside
from render_agent.util.display import count_noun, first_names, track
from render_agent.util.reasons import short_repr


def merge_shards(output: Path, shards: Sequence[RunData]) -> tuple[Path, dict[str, Any]]:
    """Write a new run folder with the questions, turns and images of all shards.

    If a shard is unfinished, the merged run is unfinished and can be resumed. The folder appears complete, by a rename;
    the next merge of the same shards removes what a killed one left.
    """
    config = _common_options(shards)
    questions = [question for shard in shards for question in shard.questions]
    if all(question.id.isdecimal() for question in questions):  # as in VSI-Bench
        questions.sort(key=lambda question: int(question.id))
    _check_inputs(shards)
    _check_coverage(shards)
    for shard in shards:
        _ = shard.dialogues  # raises if the shard's log is damaged
    record = dict(shards[0].record)
    record |= {
        "config": config.to_json(),
        "fingerprint": config.fingerprint,
        "merged": [shard.name for shard in shards],
        "sha256": _join_hashes(shard.record["sha256"] for shard in shards)
        | {QUESTIONS: hashlib.sha256(questions_text(questions)).hexdigest()},
        "scan_parts": _join_hashes(shard.record.get("scan_parts", {}) for shard in shards),
    }
    for engine in [shard.record["engine"] for shard in shards]:
        for machine in (engine.get(MACHINE), *engine.get(OTHER_MACHINES, [])):
            record["engine"] = add_machine(record["engine"], machine)
    if any(shard.price != shards[0].price for shard in shards):
        record["price"] = None  # the total is unknown
    record.pop("selection", None)
    if checks := [check for shard in shards for check in shard.sight_checks]:
        record["sight_checks"] = checks
    if engine_checks := [check for shard in shards for check in shard.start_checks]:
        record["start_checks"] = engine_checks
    records_with_note = [shard.record for shard in shards if shard.record["choosing"].get("note")]
    if records_with_note:  # boxes may be known only for the scenes of some shards
        record["choosing"] = records_with_note[0]["choosing"]
    first_name = min(shard.name for shard in shards)
    unfinished = output / f".merge-{first_name}"  # hidden: not listed as a run
    make_folders(unfinished, durable=True)
    with closing(RunLog(unfinished)) as log:
        try:
            _empty(unfinished)
            results = _write(log, record, shards, questions)
            path = new_folder(output, "batched")
            with write_errors(path):
                unfinished.rename(path)  # replaces the new, empty folder
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
    sync_folder(output)
    return path, results


def _empty(folder: Path) -> None:
    """Remove what a killed merge left in a locked folder."""
    with os_errors(RunLogError, f"empty {folder}"):
        for entry in folder.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif entry.name != LOCK:
                entry.unlink()


def _write(
    log: RunLog, record: dict[str, Any], shards: Sequence[RunData], questions: Sequence[Question]
) -> dict[str, Any]:
    log.write_record({"format": FORMAT, **record})
    for shard in track(shards, "copying shards"):
        _copy_images(shard.path, log.path)
    os.sync()  # once for all images, before any line refers to them
    for shard in shards:
        for line in shard.lines():
            log.append_line(line)
        log.sync()
    log.write_questions(questions)
    run = RunData(log.path)
    if not any(state.active for state in run.dialogues):
        log.write_results(run.results)
    return run.results


def _check_inputs(shards: Sequence[RunData]) -> None:
    """Raise UsageError if the shards had different inputs, RunLogError if questions have changed since they ran."""
    for shard in shards:
        shard.refuse_changes(scenes=False)
    reference = shards[0]
    for shard in shards[1:]:
        if differing := differing_inputs(reference.recorded, shard.recorded):
            names = first_names([f"{INPUT_NOUNS[section]} {name}" for section, name in differing])
            raise UsageError(
                f"{shard.name} and {reference.name} had different inputs (SHA-256): {names}. Run one of them again with the"
                " inputs of the other."
            )


def _check_coverage(shards: Sequence[RunData]) -> None:
    """Raise UsageError if a question or scene is in two shards, or if a selected question is in none."""
    shard_of: dict[tuple[str, str], str] = {}
    for shard in shards:
        places = {("question", question.id) for question in shard.questions}
        places |= {("scene", question.scene) for question in shard.questions}
        for place in sorted(places):
            other_shard = shard_of.setdefault(place, shard.name)
            if other_shard != shard.name:
                kind, name = place
                raise UsageError(
                    f"{kind} {short_repr(name)} is in {other_shard} and in {shard.name}, so they are not shards of the"
                    " same division. Run them again."
                )
    selections = [shard.record["selection"] for shard in shards if "selection" in shard.record]
    missing_ids = {id for ids in selections for id in ids} - {
        id for kind, id in shard_of if kind == "question"
    }
    if missing_ids:
        raise UsageError(
            f"{count_noun(len(missing_ids), 'question')} of the undivided run are in none of the shards, such as"
            f" {short_repr(min(missing_ids))}. Run the shards again."
        )


def _common_options(shards: Sequence[RunData]) -> RunConfig:
    """Return the options shared by all shards. Raises UsageError unless they are the shards of one run."""
    configs = [replace(shard.config, shard=None) for shard in shards]
    parts = [(shard.config.shard or "").partition("/") for shard in shards]
    for shard, config, (part, _, _) in zip(shards, configs, parts, strict=True):
        if not part:
            raise UsageError(f"{shard.name} is not a shard: it was not run with --shard I/N")
        if config.fingerprint != configs[0].fingerprint:
            raise UsageError(f"{shard.name} and {shards[0].name} have different options")
    count = parts[0][2]
    numbers = sorted(int(part) for part, _, _ in parts)
    if any(total != count for _, _, total in parts) or len(set(numbers)) < len(numbers):
        raise UsageError(
            "the runs are not shards of the same division: each part I/N must occur once"
        )
    missing_parts = sorted(set(range(1, int(count) + 1)) - set(numbers))
    if missing_parts:
        raise UsageError(
            f"these shards are missing: {', '.join(f'{part}/{count}' for part in missing_parts)}"
        )
    return configs[0]


def _join_hashes(hashes_of_shards: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the hashes of all shards, section by section."""
    result: dict[str, Any] = {}
    for hashes in hashes_of_shards:
        for name, value in hashes.items():
            result[name] = result.get(name, {}) | value if isinstance(value, dict) else value
    return result


def _copy_images(source: Path, target: Path) -> None:
    """Hard-link images, or copy them to another disk. Raises RunLogError if neither works."""
    for image in (source / "views").rglob("*.png"):
        destination = target / image.relative_to(source)
        check_inside(source, image)
        with os_errors(RunLogError, f"copy {image} to {destination}"):
            if destination.exists():  # for example, the opening image of a scene in two shards
                continue
            destination.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(image, destination)
            except OSError:  # another disk, or no support for hard links
                shutil.copyfile(image, destination)
