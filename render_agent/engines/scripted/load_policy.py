"""The policies that `--model` names: registered ones, replies written in a file, and policies in Python."""

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
from render_agent.util.safe_parse import parse_json, read_bounded


def policy_maker(model: str) -> NamedPolicy:
    """Return the policy that `--model` names: by its name, or a file as `policy_of_file` has it.

    SetupError where it is neither, or where the file cannot be read or imported.
    """
    if model in registry.names("scripted policy"):
        policy: NamedPolicy = registry.load("scripted policy", model)
        return policy
    path = Path(model)
    if path.suffix not in SUFFIXES or not path.is_file():
        known = ", ".join(registry.names("scripted policy"))
        raise SetupError(
            f"--engine scripted has no model {model!r}: give one of {known}, or an existing"
            f" .py, .json or .jsonl file{did_you_mean(model, registry.names('scripted policy'))}"
        )
    return policy_of_file(path)


SUFFIXES = (".py", ".json", ".jsonl")


class Replies:
    """Gives replies that were written down: for every question its list, a turn each.

    `*` stands for any other question; after its last reply a list repeats it.
    """

    def __init__(self, replies: Mapping[str, Sequence[str]]) -> None:
        self.replies = replies

    def reply(self, request: Request) -> str:
        """Return the reply written for this question and turn, an empty one where there is none."""
        texts = self.replies.get(request.question_id, self.replies.get("*", [""]))
        return texts[min(request.turn, len(texts) - 1)] if texts else ""


def policy_of_file(path: Path) -> NamedPolicy:
    """Return what builds the policy of a file.

    path: a .py file with `policy(questions, seed)`, or a .json or .jsonl file as `read_replies` has it.
    SetupError where it cannot be read or imported.
    """
    if path.suffix == ".py":
        return _imported(path)
    replies = read_replies(path)
    return NamedPolicy(lambda questions, seed, config: Replies(replies))


def read_replies(path: Path) -> dict[str, list[str]]:
    """Return the replies in a .json or .jsonl file by question id. SetupError where it holds none.

    Its entries are {"id": …, "replies": [text or object, …]}, "*" for any other question.
    """
    try:
        with os_errors(SetupError, f"read {path}"):
            text = read_bounded(path).decode("utf-8")
        if path.suffix == ".jsonl":
            rows = [parse_json(line) for line in text.split("\n") if line.strip()]
        else:
            rows = parse_json(text)
    except ValueError as error:
        raise SetupError(f"{path} is no JSON: {error}") from error
    replies: dict[str, list[str]] = {}
    for number, row in enumerate(rows if isinstance(rows, list) else [rows], start=1):
        if not (isinstance(row, dict) and "id" in row and isinstance(row.get("replies"), list)):
            raise SetupError(
                f'{path}, entry {number}: it must be {{"id": …, "replies": [text or object, …]}}'
            )
        replies[str(row["id"])] = [
            reply if isinstance(reply, str) else json.dumps(reply) for reply in row["replies"]
        ]
    return replies


def _imported(path: Path) -> NamedPolicy:
    spec = importlib.util.spec_from_file_location(f"render_agent_policy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the annotations of their module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # it is anybody's code
        raise SetupError(f"{path} cannot be imported: {first_line(error)}") from error
    make = getattr(module, "policy", None)
    if not callable(make):
        raise SetupError(f"{path} has no function policy(questions, seed) that returns a policy")

    def build(questions: Sequence[Question], seed: int, config: RunConfig | None) -> Policy:
        try:
            policy: Policy = make(questions, seed)
        except Exception as error:  # it is anybody's code
            raise SetupError(f"policy() in {path} failed: {first_line(error)}") from error
        if not callable(getattr(policy, "reply", None)):
            raise SetupError(f"policy() in {path} must return an object with reply(request)")
        return policy

    return NamedPolicy(build)
