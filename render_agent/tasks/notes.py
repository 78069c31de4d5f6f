"""Caveats about a run's scores that follow from its questions and scans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from render_agent.dialogue.question import Question
from render_agent.options import OPTIONS, RunConfig
from render_agent.tasks.boxes.annotations import is_annotation_file

STAND_INS = (
    "stand-ins instead of scans: rooms of coloured boxes built from the official annotations"
)
MISSING = "missing scans, questions skipped (--allow-missing)"


def scene_kinds(questions: Sequence[Question]) -> dict[str, int]:
    """Count the scenes with scans, with rooms built from annotations, and with neither."""
    kinds = Counter(
        {(q.dataset, q.scene): _kind(q) for q in questions if q.change is None}.values()
    )
    return {kind: kinds[kind] for kind in ("scans", "annotations", "missing")}


def question_notes(config: RunConfig, questions: Sequence[Question], *, blind: bool) -> list[str]:
    """Return the caveats due to a subset of the benchmark, counterparts, stand-ins for scans, or missing scans."""
    notes = (
        []
        if config.subset == OPTIONS["subset"].default
        else [f"subset {config.subset} of VSI-Bench"]
    )
    if config.change:
        originals = [question for question in questions if question.change is None]
        notes.append(
            f"{len(questions) - len(originals)} of {len(questions)} questions are counterparts (--change): they are only scored as pairs"
        )
        questions = originals
    scenes = len({(question.dataset, question.scene) for question in questions})
    caveats = {} if blind else {"annotations": STAND_INS}
    if config.allow_missing and not blind:
        caveats["missing"] = MISSING
    for kind, caveat in caveats.items():
        affected_questions = [question for question in questions if _kind(question) == kind]
        if affected_questions:
            count = len({(question.dataset, question.scene) for question in affected_questions})
            notes.append(
                f"{caveat}: {count} of {scenes} scenes, {len(affected_questions)} of {len(questions)} questions"
            )
    return notes


def _kind(question: Question) -> str:
    if question.scan is None:
        return "missing"
    return "annotations" if is_annotation_file(question.scan) else "scans"
