"""The engine that replies by rule instead of by a model: for a first run, for baselines, for tests."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import replace

from render_agent.dialogue.question import Question
from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import BatchingEngine, Capabilities, Reply, Request
from render_agent.engines.scripted.load_policy import policy_maker
from render_agent.engines.scripted.policy import Policy
from render_agent.engines.token_estimate import picture_tokens
from render_agent.options import RunConfig

logger = logging.getLogger(__name__)

BATCH_SIZE = 64
"""Requests in one call, where nothing else is asked for."""


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
        """Let the policy give back what it holds."""
        if (close := getattr(self.policy, "close", None)) is not None:
            close()

    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Return the policy's reply to every request, in their order."""
        return [self._one(request, len(requests)) for request in requests]

    def _one(self, request: Request, batch_size: int) -> Reply:
        if request.about is not None:
            request = replace(request, question_id=request.about)
        samples = getattr(self.policy, "samples", None) if request.probe is None else None
        try:
            texts: tuple[object, ...]
            if request.probe is not None:
                believe = getattr(self.policy, "believe", belief_of_nothing)
                texts = (believe(request),)
            elif samples is not None:
                texts = tuple(samples(request))
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
        once = replies[:1] if samples is None else replies
        tokens = Tokens(
            prompt=read * len(once),
            reply=sum(len(text.split()) for text in once),
            cached=read * (len(once) - 1),  # as an engine that reads a prompt once for its samples
        )
        return Reply(replies, tokens, batch_size=batch_size)


def belief_of_nothing(request: Request) -> str:
    """Return the belief of a policy that looks at nothing: where it stands, and that all is unseen."""
    probe = request.probe
    assert probe is not None, "it asks what is believed"
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
    """Return the engine of a named policy or of a file. SetupError as in `policy_maker`.

    config: the options of the run, for policies that know more than its questions.
    """
    policy = policy_maker(model)(questions, seed, config)
    tokens = 0 if config is None else picture_tokens(model, *config.image_size)
    return ScriptedEngine(policy, batch_size, tokens)
