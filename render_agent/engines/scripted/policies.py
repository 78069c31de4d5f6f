"""The policies that `--model` names, and where each is found."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.engines.scripted.policy_files import SUFFIXES, policy_of_file
from render_agent.errors import SetupError

HERE = "render_agent.engines.scripted"

POLICIES = {
    "explorer": f"{HERE}.blind_policies:EXPLORER",
    "random": f"{HERE}.blind_policies:RANDOM",
    "frequency": f"{HERE}.baselines:FREQUENCY",
    "oracle": f"{HERE}.baselines:ORACLE",
    "witness": f"{HERE}.sighted_oracle:WITNESS",
    "wanderer": f"{HERE}.blind_policies:WANDERER",
    "seeker": f"{HERE}.sighted_oracle:SEEKER",
    "expert": "render_agent_lab.expert.policy:EXPERT",
    "stumbler": "render_agent_lab.expert.noisy_expert:STUMBLER",
}
"""The entry point of every `NamedPolicy`."""


def load_policy(name: str) -> NamedPolicy:
    """Return the policy that has a name; this is the only place that knows where named policies are."""
    factory: NamedPolicy = EntryPoint(name, POLICIES[name], "").load()
    return factory


def policy_maker(model: str) -> NamedPolicy:
    """Return the policy that `--model` names: by its name, or a file as `policy_of_file` has it.

    SetupError where it is neither, or where the file cannot be read or imported.
    """
    if model in POLICIES:
        return load_policy(model)
    path = Path(model)
    if path.suffix not in SUFFIXES or not path.is_file():
        raise SetupError(
            f"--engine scripted has no model {model!r}: give one of {', '.join(POLICIES)}, or an"
            " existing .py, .json or .jsonl file"
        )
    return policy_of_file(path)
