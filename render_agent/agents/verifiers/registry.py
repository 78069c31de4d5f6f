"""The verifiers of a run together: built for it, and described for its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from render_agent.agents.verifiers.base import VerifierPanel
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question
from render_agent.engines.base import Engine


def make_panel(config: RunConfig, questions: Sequence[Question], engine: Engine) -> VerifierPanel:
    """Return the verifiers of a run. SetupError where what one needs is not at hand.

    engine: of the run, which the judge asks where no other model is named.
    """
    verifiers = tuple(plan.build(config, questions, engine) for plan in config.verifiers)
    return VerifierPanel(verifiers, config.weights, config.fusion)


def describe_choosing(config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
    """Describe the agent and its verifiers for `config.json`; nothing heavy is loaded.

    note: what must be said beside every figure of the run, None where there is nothing. QuestionsError
    where a file of boxes is in no known format.
    """
    plan = config.agent_plan
    description: dict[str, Any] = {
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
    return {**description, "note": _note(description)}


def _note(description: Mapping[str, Any]) -> str | None:
    """Return the note of a run whose verifiers know what no model should; None where none does."""
    if not any(entry.get("knows") for entry in description["verifiers"]):
        return None
    names = [
        f"{entry['name']} (knows {entry['knows']})" if entry.get("knows") else entry["name"]
        for entry in description["verifiers"]
    ]
    return f"agent: {description['agent']} by {', '.join(names)}"
