"""Checks of data: the bundled rooms, VSI-Bench's questions, and their scans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from render_agent.cli.commands.doctor.checks import Check
from render_agent.dialogue.question import Question
from render_agent.errors import RenderAgentError
from render_agent.scans.annotation_rooms.annotations import read_annotations
from render_agent.tasks.rooms import load_bundled_rooms
from render_agent.tasks.scan_folders import find_scan
from render_agent.tasks.vsibench import load_vsibench
from render_agent.util.display import count_noun

PART = "data"
DATASETS = ("scannet", "scannetpp", "arkitscenes")


def data_checks(options: Mapping[str, Any]) -> Iterator[Check]:
    """Yield the checks of data; `options` may include questions, annotations and data set folders."""
    yield _rooms()
    yield from _vsibench(options)


def _rooms() -> Check:
    remedy = "the installation is incomplete; reinstall render_agent"
    try:
        questions = load_bundled_rooms()
    except RenderAgentError as error:
        return Check(PART, "bundled rooms", False, str(error), needed=True)
    scans = {question.scan for question in questions}
    missing_scans = sorted(str(scan) for scan in scans if scan is None or not scan.is_file())
    if missing_scans or not questions:
        detail = f"{len(missing_scans)} of {len(scans)} rooms are missing: {', '.join(missing_scans[:3])}"
        return Check(PART, "bundled rooms", False, detail, remedy, needed=True)
    detail = f"{count_noun(len(questions), 'question')} about {count_noun(len(scans), 'room')}"
    return Check(PART, "bundled rooms", True, detail, needed=True)


def _vsibench(options: Mapping[str, Any]) -> Iterator[Check]:
    try:
        questions = load_vsibench(options.get("questions"))
    except RenderAgentError as error:
        yield Check(PART, "VSI-Bench", False, str(error))
        questions = []
    else:
        yield Check(PART, "VSI-Bench", True, count_noun(len(questions), "question"))
    for dataset in DATASETS:
        if questions or options.get(dataset):
            yield _scans(dataset, options.get(dataset) or (), questions)
    if options.get("annotations"):
        yield _annotations(options["annotations"], questions)


def _annotations(folder: str, questions: list[Question]) -> Check:
    try:
        annotations = read_annotations(Path(folder))
    except RenderAgentError as error:
        return Check(PART, "annotations", False, str(error), "pass --annotations DIR")
    scenes = {question.scene for question in questions} or annotations.keys()
    annotated_count = len(scenes & annotations.keys())
    detail = f"{annotated_count} of {len(scenes)} scenes are annotated in {folder}"
    return Check(PART, "annotations", annotated_count == len(scenes), detail)


def _scans(dataset: str, roots: Sequence[str], questions: list[Question]) -> Check:
    flag = f"--{dataset} DIR"
    scenes = {question.scene for question in questions if question.dataset == dataset}
    if not roots:
        detail = f"{count_noun(len(scenes), 'scene')} needed; no folder given"
        return Check(
            PART, dataset, False, detail, f"pass {flag}, or set RENDER_AGENT_{dataset.upper()}"
        )
    for root in roots:
        if not Path(root).is_dir():
            return Check(PART, dataset, False, f"{root} is not a folder", f"pass {flag}")
    places = " and ".join(roots)
    if not questions:
        return Check(PART, dataset, True, f"{places}; cannot count scans without questions")
    found_count = sum(find_scan(dataset, scene, {dataset: roots}) is not None for scene in scenes)
    detail = f"{found_count} of {len(scenes)} scans found in {places}"
    remedy = "keep the folder layout of the data set's official download"
    return Check(PART, dataset, found_count == len(scenes), detail, remedy)
