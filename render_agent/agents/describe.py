"""What a run records of how its moves are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from render_agent.config import RunConfig
    from render_agent.dialogue.question import Question


def describe_choosing(config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
    """Describe the agent and its verifiers for `config.json`; nothing heavy is loaded.

    note: what must be said beside every figure of the run, None where there is nothing. QuestionsError
    where a file of boxes is in no known format.
    """
    agent = config.turn_agent
    described = [
        {"name": verifier.label, **verifier.describe(config, questions)}
        for verifier in config.verifiers
    ]
    return {
        "agent": config.agent,
        "samples": agent.samples,
        "groups": agent.wordings,
        "verifiers": described,
        "note": _note(config.agent, described),
    }


def _note(agent: str, verifiers: Sequence[Mapping[str, Any]]) -> str | None:
    """Return the note of a run whose verifiers know what no model should; None where none does."""
    if not any(entry.get("knows") for entry in verifiers):
        return None
    names = [
        f"{entry['name']} (knows {entry['knows']})" if entry.get("knows") else entry["name"]
        for entry in verifiers
    ]
    return f"agent: {agent} by {', '.join(names)}"
