"""The engine that replies with a policy instead of a model: for a first run, for baselines, for tests."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from render_agent import registry
from render_agent.dialogue.question import Question
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import (
    BatchingEngine,
    Capabilities,
    Engine,
    Reply,
    Request,
    Workload,
)
from render_agent.engines.make_engine import EngineMaker
from render_agent.engines.scripted.load_policy import SUFFIXES, find_policy
from render_agent.engines.scripted.policy import Policy
from render_agent.engines.token_estimate import image_tokens
from render_agent.options import RunConfig
from render_agent.tasks.input_files import InputFile
from render_agent.tasks.selection import question_files, undivided_questions
from render_agent.util.file_digests import digest_of
from render_agent.util.reasons import short_repr

logger = logging.getLogger(__name__)

BATCH_SIZE = 64  # default number of requests per batch


class ScriptedEngine(BatchingEngine):
    """Answers with a policy, deterministically and without a model."""

    name = "scripted"
    capabilities = Capabilities()

    def __init__(
        self,
        policy: Policy,
        batch_size: int = BATCH_SIZE,  # largest number of requests per batch
        # tokens to count per image; every word of a text counts as one token
        image_tokens: int = 0,
        label: str = "the policy",
    ) -> None:
        super().__init__(batch_size=batch_size)
        self.policy = policy
        self.image_tokens = image_tokens
        self.label = label

    def close(self) -> None:
        """Close the policy if it has a `close` method."""
        if (close := getattr(self.policy, "close", None)) is not None:
            close()

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        texts = self._texts(requests)
        return [
            self._answer_one(request, text, len(requests))
            for request, text in zip(requests, texts, strict=True)
        ]

    def _texts(self, requests: Sequence[Request]) -> list[object]:
        """Return what the policy gives for each request: a text, one text per sample, or an exception."""
        reply_all = getattr(self.policy, "reply_all", None)
        batch = [request for request in requests if not self._believes(request)]
        if reply_all is None or not batch:
            return [_attempt(self._text, request) for request in requests]
        replies = _attempt(reply_all, batch)
        if isinstance(replies, Exception):
            replies = [replies] * len(batch)
        elif not isinstance(replies, Sequence) or len(replies) != len(batch):
            error = TypeError(f"expected a list of {len(batch)} replies, not {short_repr(replies)}")
            replies = [error] * len(batch)
        in_batch = iter(replies)
        return [
            _attempt(self._text, request) if self._believes(request) else next(in_batch)
            for request in requests
        ]

    def _believes(self, request: Request) -> bool:
        return request.probe is not None and hasattr(self.policy, "believe")

    def _text(self, request: Request) -> object:
        if self._believes(request):
            return self.policy.believe(request)  # type: ignore[attr-defined]
        if self._has_samples(request):
            return tuple(self.policy.samples(request))  # type: ignore[attr-defined]
        return self.policy.reply(request)

    def _has_samples(self, request: Request) -> bool:
        return request.probe is None and hasattr(self.policy, "samples")

    def _answer_one(self, request: Request, replies_or_text: object, batch_size: int) -> Reply:
        if isinstance(replies_or_text, Exception):
            question = request.question_id
            logger.error(
                "%s failed for question %s", self.label, question, exc_info=replies_or_text
            )
            error_text = f"{self.label} raised {replies_or_text!r}"
            return Reply(batch_size=batch_size, error=error_text, cause=replies_or_text)
        texts: tuple[object, ...] = (replies_or_text,) * request.num_samples
        if isinstance(replies_or_text, tuple) and self._has_samples(request):
            texts = replies_or_text
        replies = tuple(text for text in texts if isinstance(text, str))
        if len(replies) < len(texts):
            wrong = next(text for text in texts if not isinstance(text, str))
            error_text = f"{self.label} must return a string, not {type(wrong).__name__}"
            return Reply(batch_size=batch_size, error=error_text)
        if len(replies) != request.num_samples:
            error_text = (
                f"{self.label} returned {len(replies)} samples instead of {request.num_samples}"
            )
            return Reply(batch_size=batch_size, error=error_text)
        prompt_tokens = sum(
            len(piece["text"].split()) if piece["type"] == "text" else self.image_tokens
            for message in request.messages
            for piece in message["content"]
        )
        distinct_replies = replies if texts is replies_or_text else replies[:1]
        tokens = Tokens(
            prompt=prompt_tokens * len(distinct_replies),
            reply=sum(len(text.split()) for text in distinct_replies),
            # As if a prefix cache shared the prompt among the samples.
            cached=prompt_tokens * (len(distinct_replies) - 1),
        )
        return Reply(replies, tokens, batch_size=batch_size)


def _attempt(function: Callable[[Any], Any], argument: object) -> Any:
    """Call user code; return an exception instead of raising it, because it fails only its own questions."""
    try:
        return function(argument)
    except Exception as error:  # noqa: BLE001 - a policy is user code and can raise anything
        return error


def make_scripted(
    model: str,
    questions: Sequence[Question],
    seed: int,
    batch_size: int = BATCH_SIZE,  # largest number of requests per batch
    # the run options, for policies that need scenes or annotations; None outside a run
    config: RunConfig | None = None,
) -> ScriptedEngine:
    """Build the engine for a policy."""
    policy = find_policy(model)(questions, seed, config)
    tokens = 0 if config is None else image_tokens(model, *config.image_size)
    return ScriptedEngine(policy, batch_size, tokens)


class Scripted(EngineMaker):
    """A rule-based policy instead of a model."""

    default_model = "explorer"
    uses_model = uses_server = loads_weights = has_options = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        size = config.fixed_batch_size or BATCH_SIZE
        if config.shard is not None:  # so that a fitted policy is that of the undivided run
            shard = {question.id: question for question in questions}
            questions = [shard.pop(q.id, q) for q in undivided_questions(config)]
            questions += shard.values()  # counterparts
        return make_scripted(self.model_name(config), questions, config.seed, size, config)

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the policy's note for result pages. Raises SetupError if the policy does not exist."""
        return {"note": getattr(find_policy(self.model_name(config)), "note", None)}

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Yield the file of the policy, and the questions of the other shards."""
        if config.shard is not None:
            for file in question_files(config):
                yield InputFile("questions", str(file), digest_of(file))
        name = self.model_name(config)
        if name not in registry.names("scripted policy") and Path(name).suffix in SUFFIXES:
            yield InputFile("policies", name, digest_of(Path(name)))

    def reads_boxes(self, config: RunConfig) -> bool:
        """Return True for a named policy that answers from object boxes."""
        name = self.model_name(config)
        is_named = name in registry.names("scripted policy")
        return is_named and getattr(registry.load("scripted policy", name), "knows_boxes", False)

    def code_file(self, config: RunConfig) -> str | None:
        """Return the policy's Python file; None for a named policy or a file of replies."""
        name = self.model_name(config)
        is_code = Path(name).suffix == ".py" and name not in registry.names("scripted policy")
        return name if is_code else None


SCRIPTED = Scripted()
