"""What a run records of how its moves are chosen, and what must be said of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from render_agent.agents.verifiers.learned.card_file import read_card
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question
from render_agent.questions.ground_truth import facts_files
from render_agent.runs.input_files import chooses_by_boxes, scan_hashes

KNOWS = "where the named objects are"
"""What the verifier geometry knows of a scene whose boxes are known, and no model does."""


def describe_choosing(config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
    """Return what `config.json` holds of the agent and its verifiers; nothing heavy is loaded.

    note: what must be said beside every figure of the run, None where there is nothing. QuestionsError
    where a file of boxes is in no known format.
    """
    plan = config.agent_plan
    found: dict[str, Any] = {
        "agent": config.agent,
        "kind": plan.kind,
        "samples": plan.samples,
        "groups": plan.groups,
        "depth": plan.depth,
        "verifiers": _verifiers(config, questions),
        "fusion": config.fusion if plan.verified else None,
    }
    return {**found, "note": _note(found)}


def _verifiers(config: RunConfig, questions: Sequence[Question]) -> list[dict[str, Any]]:
    known = chooses_by_boxes(config) and bool(facts_files(questions, config.annotations))
    found: list[dict[str, Any]] = []
    for plan, weight in zip(config.verifiers, config.weights, strict=True):
        entry: dict[str, Any] = {"name": plan.label, "weight": weight}
        if plan.name == "judge":
            model = plan.argument or config.model_name
            entry |= {"model": model, "rubric": config.rubric, "mode": config.judge_mode}
        if plan.label == "geometry":
            entry["knows"] = KNOWS if known else None
        if plan.name == "learned":
            entry["knows"] = learned_from(Path(plan.argument or ""), questions)
        found.append(entry)
    return found


def learned_from(folder: Path, questions: Sequence[Question]) -> str | None:
    """Return that a learned verifier was trained in some of the questions' scenes, None where in none.

    SetupError where the folder holds no verifier, or a scan cannot be read.
    """
    learned = read_card(folder)["learned"].get("learned_from", {}).get("scans", ())
    hashes = scan_hashes(questions)
    scans = {str(question.scan) for question in questions if question.scan is not None}
    met = sum(hashes[scan] in learned for scan in scans)
    return f"{met} of these {len(scans)} scenes, in which it was trained" if met else None


def _note(found: dict[str, Any]) -> str | None:
    """Return the sentence that a run needs whose moves were chosen by what no model should know."""
    if not any(entry.get("knows") for entry in found["verifiers"]):
        return None
    names = [
        f"{entry['name']} (knows {entry['knows']})" if entry.get("knows") else entry["name"]
        for entry in found["verifiers"]
    ]
    return f"agent: {found['agent']} by {', '.join(names)}"
