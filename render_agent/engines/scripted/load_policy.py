"""Loads the policy for `--engine scripted --model`: a registered name, a file of replies, or a Python file."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Request
from render_agent.engines.scripted.policy import NamedPolicy, Policy
from render_agent.errors import SetupError, os_errors
from render_agent.options import RunConfig
from render_agent.util.reasons import did_you_mean, first_line
from render_agent.util.safe_parse import parse_json, read_text

SUFFIXES = (".py", ".json", ".jsonl")


def find_policy(model: str) -> NamedPolicy:
    """Return the policy for a value of `--model`."""
    if model in registry.names("scripted policy"):
        policy: NamedPolicy = registry.load("scripted policy", model)
        return policy
    path = Path(model)
    if path.suffix not in SUFFIXES or not path.is_file():
        names = ", ".join(registry.names("scripted policy"))
        raise SetupError(
            f"--engine scripted has no model {model!r}: use one of {names}, or an existing"
            f" .py, .json or .jsonl file{did_you_mean(model, registry.names('scripted policy'))}"
        )
    return policy_of_file(path)


class ReplayPolicy:
    """Replays lists of replies, one per turn, by question id; `*` is for all others. The last reply of a list is
    repeated.
    """

    def __init__(self, replies: Mapping[str, Sequence[str]]) -> None:
        self.replies = replies

    def reply(self, request: Request) -> str:
        """Return the prepared reply for this question and turn. Raises LookupError if the question has none."""
        texts = self.replies.get(request.question_id, self.replies.get("*"))
        if not texts:
            raise LookupError(f"there are no replies for question {request.question_id!r}")
        return texts[min(request.turn + request.restates, len(texts) - 1)]


def policy_of_file(path: Path) -> NamedPolicy:
    """Return the policy that a file defines."""
    if path.suffix == ".py":
        return _import_policy(path)
    replies = read_replies(path)
    return NamedPolicy(lambda questions, seed, config: ReplayPolicy(replies))


def read_replies(path: Path) -> dict[str, list[str]]:
    """Return the replies in a .json or .jsonl file by question id.

    The entries have the form {"id": …, "replies": [text or object, …]}; the id "*" applies to all other questions.
    """
    try:
        with os_errors(SetupError, f"read {path}"):
            text = read_text(path)
        if path.suffix == ".jsonl":
            rows = [parse_json(line) for line in text.split("\n") if line.strip()]
        else:
            rows = parse_json(text)
    except ValueError as error:
        raise SetupError(f"{path} is not valid JSON: {error}") from error
    replies: dict[str, list[str]] = {}
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], start=1):
        if not (isinstance(row, dict) and "id" in row and isinstance(row.get("replies"), list)):
            raise SetupError(
                f'{path}, entry {number} must have the form {{"id": …, "replies": [text or object, …]}}'
            )
        replies[str(row["id"])] = [
            reply if isinstance(reply, str) else json.dumps(reply) for reply in row["replies"]
        ]
    return replies


def _import_policy(path: Path) -> NamedPolicy:
    spec = importlib.util.spec_from_file_location(f"render_agent_policy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up annotations there
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # user code can raise anything
        raise SetupError(f"{path} cannot be imported: {first_line(error)}") from error
    make = getattr(module, "policy", None)
    if not callable(make):
        raise SetupError(f"{path} does not define a function policy(questions, seed)")

    def build(questions: Sequence[Question], seed: int, config: RunConfig | None) -> Policy:
        try:
            policy: Policy = make(questions, seed)
        except Exception as error:  # user code can raise anything
            raise SetupError(f"policy() in {path} failed: {first_line(error)}") from error
        if not callable(getattr(policy, "reply", None)):
            raise SetupError(f"policy() in {path} must return an object with reply(request)")
        return policy

    return NamedPolicy(build)
