"""The policies that `--model` names: those of the registry, and files."""

from __future__ import annotations

from pathlib import Path

from render_agent import registry
from render_agent.engines.scripted.policy import NamedPolicy
from render_agent.engines.scripted.policy_files import SUFFIXES, policy_of_file
from render_agent.errors import SetupError


def policy_maker(model: str) -> NamedPolicy:
    """Return the policy that `--model` names: by its name, or a file as `policy_of_file` has it.

    SetupError where it is neither, or where the file cannot be read or imported.
    """
    known = registry.names("scripted policy")
    if model in known:
        policy: NamedPolicy = registry.load("scripted policy", model)
        return policy
    path = Path(model)
    if path.suffix not in SUFFIXES or not path.is_file():
        raise SetupError(
            f"--engine scripted has no model {model!r}: give one of {', '.join(known)}, or an existing"
            " .py, .json or .jsonl file"
        )
    return policy_of_file(path)
