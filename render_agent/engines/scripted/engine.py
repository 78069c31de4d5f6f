"""Replies by rule instead of by a model: for a first run, for baselines, for tests."""

from __future__ import annotations

import importlib.util
import json
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from render_agent import registry
from render_agent.config import RunConfig
from render_agent.dialogue.state import Question, Tokens
from render_agent.engines.base import BatchingEngine, Capabilities, Reply, Request
from render_agent.engines.cost_estimate import picture_tokens
from render_agent.errors import SetupError
from render_agent.text.safe_parse import parse_json, read_bounded

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Requests in one call, where nothing else is asked for."""


class Policy(Protocol):
    """Decides what to reply; built with the list of questions, so that it can know what no prompt holds."""

    def reply(self, request: Request) -> str:
        """Return the text of the reply to one request."""
        ...


@runtime_checkable
class SamplingPolicy(Protocol):
    """A policy whose samples of one request differ."""

    def samples(self, request: Request) -> Sequence[str]:
        """Return as many replies as the request has samples; the first is what `reply` returns."""
        ...


class ScriptedEngine(BatchingEngine):
    """An engine that asks a policy; it answers in no time and always the same.

    A word counts as a token, and a picture as `picture_tokens`.
    """

    name = "scripted"
    capabilities = Capabilities()

    def __init__(
        self, policy: Policy, batch_size: int = BATCH_SIZE, picture_tokens: int = 0
    ) -> None:
        super().__init__(batch_size=batch_size)
        self.policy = policy
        self.picture_tokens = picture_tokens

    def close(self) -> None:
        """Let the policy give back what it draws with."""
        close = getattr(self.policy, "close", None)
        if callable(close):
            close()

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Return the policy's reply to every request, in their order."""
        return [self._one(request, len(requests)) for request in requests]

    def _one(self, request: Request, batch_size: int) -> Reply:
        if request.about is not None:
            request = replace(request, question_id=request.about)
        try:
            if isinstance(self.policy, SamplingPolicy):
                texts: tuple[object, ...] = tuple(self.policy.samples(request))
            else:
                texts = (self.policy.reply(request),) * request.samples
        except Exception as error:  # a policy is anybody's code and may raise anything
            logger.exception("the policy failed at question %s", request.question_id)
            return Reply(batch_size=batch_size, error=f"the policy raised {error!r}")
        replies = tuple(text for text in texts if isinstance(text, str))
        if len(replies) < len(texts):
            odd = next(text for text in texts if not isinstance(text, str))
            fault = f"the policy must reply with a text, not {type(odd).__name__}"
            return Reply(batch_size=batch_size, error=fault)
        if len(replies) != request.samples:
            fault = f"the policy gave {len(replies)} samples, not {request.samples}"
            return Reply(batch_size=batch_size, error=fault)
        read = sum(
            len(piece["text"].split()) if piece["type"] == "text" else self.picture_tokens
            for message in request.messages
            for piece in message["content"]
        )
        once = replies if isinstance(self.policy, SamplingPolicy) else replies[:1]
        tokens = Tokens(
            prompt=read * len(once),
            reply=sum(len(text.split()) for text in once),
            cached=read * (len(once) - 1),  # as an engine that reads a prompt once for its samples
        )
        return Reply(replies, tokens, batch_size=batch_size)


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


class MakePolicy(Protocol):
    """Makes a policy; an entry point of `render_agent.policies` names one.

    It may have `note`, what must be said beside its figures, and `knows_boxes`, whether it answers from the
    boxes of scenes.
    """

    def __call__(
        self, questions: Sequence[Question], seed: int, config: RunConfig | None
    ) -> Policy:
        """Return the policy. config: the options of the run, None where there is no run."""
        ...


@dataclass(frozen=True)
class NamedPolicy:
    """A policy of the program, with what must be said of it."""

    make: Callable[[Sequence[Question], int, RunConfig | None], Policy]
    note: str | None = None
    knows_boxes: bool = False

    def __call__(
        self, questions: Sequence[Question], seed: int = 0, config: RunConfig | None = None
    ) -> Policy:
        """Return the policy."""
        return self.make(questions, seed, config)


def make_scripted(
    model: str,
    questions: Sequence[Question],
    seed: int,
    batch_size: int = BATCH_SIZE,
    config: RunConfig | None = None,
) -> ScriptedEngine:
    """Return the engine of a named policy or of a file. SetupError as in `policy_maker`.

    config: the options of the run, for policies that know more than its questions.
    """
    policy = policy_maker(model)(questions, seed, config)
    picture = 0 if config is None else picture_tokens(model, *config.image_size)
    return ScriptedEngine(policy, batch_size, picture)


def policy_maker(model: str) -> MakePolicy:
    """Return what makes a policy of the questions, the seed and the options.

    model: a name of the registry; a .py file with `policy(questions, seed)`; or a .json or .jsonl file
    of replies by question id ({"id": …, "replies": [text or object, …]}, "*" for any other).
    SetupError where it is none of these, or where the file cannot be read or imported.
    """
    if model in (known := registry.names("scripted policy")):
        maker: MakePolicy = registry.load("scripted policy", model)
        return maker
    path = Path(model)
    if path.suffix not in (".py", ".json", ".jsonl") or not path.is_file():
        raise SetupError(
            f"--engine scripted has no model {model!r}: give one of {', '.join(known)}, or an existing"
            " .py, .json or .jsonl file"
        )
    if path.suffix == ".py":
        return _imported(path)
    replies = read_replies(path)
    return NamedPolicy(lambda questions, seed, config: Replies(replies))


def read_replies(path: Path) -> dict[str, list[str]]:
    """Return the replies in a .json or .jsonl file by question id. SetupError where it holds none."""
    try:
        text = read_bounded(path).decode("utf-8")
        if path.suffix == ".jsonl":
            rows = [parse_json(line) for line in text.split("\n") if line.strip()]
        else:
            rows = parse_json(text)
    except OSError as error:
        raise SetupError(f"cannot read {path}: {error.strerror or error}") from error
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


def _imported(path: Path) -> MakePolicy:
    spec = importlib.util.spec_from_file_location(f"render_agent_policy_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise SetupError(f"{path} cannot be imported as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the annotations of their module
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # it is anybody's code
        raise SetupError(f"{path} cannot be imported: {_told(error)}") from error
    make = getattr(module, "policy", None)
    if not callable(make):
        raise SetupError(f"{path} has no function policy(questions, seed) that returns a policy")

    def make_policy(questions: Sequence[Question], seed: int, config: RunConfig | None) -> Policy:
        try:
            policy: Policy = make(questions, seed)
        except Exception as error:  # it is anybody's code
            raise SetupError(f"policy() in {path} failed: {_told(error)}") from error
        if not callable(getattr(policy, "reply", None)):
            raise SetupError(f"policy() in {path} must return an object with reply(request)")
        return policy

    return NamedPolicy(make_policy)


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
