"""What a run records of how its moves are chosen, and what must be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.config import RunConfig
from render_agent.dialogue.state import Question


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
        "verifiers": [
            {"name": verifier.label, "weight": weight, **verifier.describe(config, questions)}
            for verifier, weight in zip(config.verifiers, config.weights, strict=True)
        ],
        "fusion": config.fusion if plan.verified else None,
    }
    return {**found, "note": _note(found)}


def _note(found: Mapping[str, Any]) -> str | None:
    """Return the sentence that a run needs whose moves were chosen by what no model should know."""
    if not any(entry.get("knows") for entry in found["verifiers"]):
        return None
    names = [
        f"{entry['name']} (knows {entry['knows']})" if entry.get("knows") else entry["name"]
        for entry in found["verifiers"]
    ]
    return f"agent: {found['agent']} by {', '.join(names)}"
