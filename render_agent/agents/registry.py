"""The agents by name, and what a run records of how its moves are chosen."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from render_agent.agents.base import Agent
from render_agent.agents.lookahead import Best, Lookahead, Show
from render_agent.agents.rephrase import Rephrase
from render_agent.agents.single import Single
from render_agent.agents.vote import Vote
from render_agent.errors import UsageError
from render_agent.text.reasons import short_repr

if TYPE_CHECKING:
    from render_agent.config import RunConfig
    from render_agent.dialogue.state import Question

AGENTS: Mapping[str, type[Agent]] = {
    "single": Single,
    "vote": Vote,
    "best": Best,
    "lookahead": Lookahead,
    "rephrase": Rephrase,
    "show": Show,
}
"""The agents, by their names in `--agent`."""

MAX_CANDIDATES = 64
"""Candidates of one turn at the most."""

_COUNTS = {"R": "(?P<wordings>[0-9]{1,4})", "K": "(?P<samples>[0-9]{1,4})", "x": "[x×]"}


def parse_agent(text: str) -> Agent:
    """Parse the text of `--agent`. UsageError where it is none of the forms of agents."""
    name, colon, argument = text.strip().partition(":")
    agent = AGENTS.get(name)
    shape = agent.form.partition(":")[2] if agent else ""
    match = re.fullmatch("".join(_COUNTS[letter] for letter in shape), argument)
    if agent is None or match is None or bool(colon) != bool(shape):
        forms = ", ".join(known.form for known in AGENTS.values())
        raise UsageError(
            f"--agent {short_repr(text)} is not valid: write one of {forms}, with whole numbers"
        )
    made = agent(text.strip(), **{key: int(value) for key, value in match.groupdict().items()})
    if colon and not 2 <= made.candidates <= MAX_CANDIDATES:
        raise UsageError(
            f"--agent {text}: 2 to {MAX_CANDIDATES} candidates are needed, to choose among them"
        )
    return made


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
