"""What must be said beside every figure of a run, because of which questions and scans it has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from render_agent.dialogue.question import Question
from render_agent.dialogue.state import split_counterparts
from render_agent.options import OPTIONS, RunConfig
from render_agent.scans.stand_in.annotations import is_annotations

STAND_INS = "stand-ins, no scans: rooms of coloured boxes built from the official annotations"
MISSING = "scans missing (--allow-missing), their questions not asked"


def scene_kinds(questions: Sequence[Question]) -> dict[str, int]:
    """Return of how many scenes there are scans, rooms built from annotations, and nothing."""
    kinds = Counter(
        {(q.dataset, q.scene): _kind(q) for q in split_counterparts(questions)[0]}.values()
    )
    return {kind: kinds[kind] for kind in ("scans", "annotations", "missing")}


def question_notes(config: RunConfig, questions: Sequence[Question], *, blind: bool) -> list[str]:
    """Return a sentence each where the questions are a subset, or scans are stood in for or missing.

    blind: whether nothing is shown, so that no scans are needed.
    """
    notes = (
        []
        if config.subset == OPTIONS["subset"].default
        else [f"subset {config.subset} of VSI-Bench"]
    )
    if config.change:
        own, counterparts = split_counterparts(questions)
        notes.append(
            f"{len(counterparts)} of {len(questions)} questions are counterparts (--change): they count in the"
            " pairs alone, in no other score"
        )
        questions = own
    scenes = len({(question.dataset, question.scene) for question in questions})
    sentences = {} if blind else {"annotations": STAND_INS}
    if config.allow_missing and not blind:
        sentences["missing"] = MISSING
    for kind, words in sentences.items():
        concerned = [question for question in questions if _kind(question) == kind]
        if concerned:
            count = len({(question.dataset, question.scene) for question in concerned})
            notes.append(
                f"{words}: {count} of {scenes} scenes, {len(concerned)} of {len(questions)} questions"
            )
    return notes


def _kind(question: Question) -> str:
    if question.scan is None:
        return "missing"
    return "annotations" if is_annotations(question.scan) else "scans"
