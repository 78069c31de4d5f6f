"""The engine that replies with a policy instead of a model: for a first run, for baselines, for tests."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from render_agent.dialogue.question import Question
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import BatchingEngine, Capabilities, Reply, Request
from render_agent.engines.scripted.load_policy import find_policy
from render_agent.engines.scripted.policy import Policy
from render_agent.engines.token_estimate import picture_tokens
from render_agent.options import RunConfig

logger = logging.getLogger(__name__)

BATCH_SIZE = 64  # default number of requests per batch


class ScriptedEngine(BatchingEngine):
    """Answers with a policy, deterministically and without a model.

    Args:
        policy: Chooses the replies.
        batch_size: Largest number of requests per batch.
        picture_tokens: Tokens to count per image; every word of a text counts as one token.
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
        """Close the policy if it has a `close` method."""
        if (close := getattr(self.policy, "close", None)) is not None:
            close()

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Return the policy's reply to every request, in the same order."""
        return [self._answer_one(request, len(requests)) for request in requests]

    def _answer_one(self, request: Request, batch_size: int) -> Reply:
        samples = getattr(self.policy, "samples", None) if request.probe is None else None
        try:
            texts: tuple[object, ...]
            if request.probe is not None:
                believe = getattr(self.policy, "believe", empty_belief)
                texts = (believe(request),)
            elif samples is not None:
                texts = tuple(samples(request))
            else:
                texts = (self.policy.reply(request),) * request.num_samples
        except Exception as error:  # a policy is user code and can raise anything
            logger.exception("the policy failed for question %s", request.question_id)
            return Reply(batch_size=batch_size, error=f"the policy raised {error!r}")
        replies = tuple(text for text in texts if isinstance(text, str))
        if len(replies) < len(texts):
            wrong = next(text for text in texts if not isinstance(text, str))
            error_text = f"the policy must return a string, not {type(wrong).__name__}"
            return Reply(batch_size=batch_size, error=error_text)
        if len(replies) != request.num_samples:
            error_text = (
                f"the policy returned {len(replies)} samples instead of {request.num_samples}"
            )
            return Reply(batch_size=batch_size, error=error_text)
        prompt_tokens = sum(
            len(piece["text"].split()) if piece["type"] == "text" else self.picture_tokens
            for message in request.messages
            for piece in message["content"]
        )
        distinct = replies[:1] if samples is None else replies
        tokens = Tokens(
            prompt=prompt_tokens * len(distinct),
            reply=sum(len(text.split()) for text in distinct),
            # As if a prefix cache shared the prompt among the samples.
            cached=prompt_tokens * (len(distinct) - 1),
        )
        return Reply(replies, tokens, batch_size=batch_size)


def empty_belief(request: Request) -> str:
    """Return the belief of a policy that ignores the views: its actual position, and no object seen."""
    probe = request.probe
    assert probe is not None, "the request has no probe"
    x, y, _ = probe.camera.position
    belief = {
        "objects": [],
        "counts": [{"category": name, "count": 0} for name in probe.named],
        "position": [round(x, 2), round(y, 2)],
        "yaw_degrees": round(probe.camera.yaw),
        "unseen": list(probe.named),
    }
    return json.dumps({key: belief[key] for key in probe.keys if key in belief})


def make_scripted(
    model: str,
    questions: Sequence[Question],
    seed: int,
    batch_size: int = BATCH_SIZE,
    config: RunConfig | None = None,
) -> ScriptedEngine:
    """Build the engine for a policy.

    Args:
        model: Name or file of the policy, as in `find_policy`.
        questions: The questions of the run.
        seed: Seed of the policy's random choices.
        batch_size: Largest number of requests per batch.
        config: The run options, for policies that need scenes or annotations; None outside a run.

    Raises:
        SetupError: As in `find_policy`.
    """
    policy = find_policy(model)(questions, seed, config)
    tokens = 0 if config is None else picture_tokens(model, *config.image_size)
    return ScriptedEngine(policy, batch_size, tokens)
