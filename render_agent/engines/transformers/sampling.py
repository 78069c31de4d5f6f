"""Chooses the next token of every row: greedy, sampled, constrained by a guide, or forced.

Random numbers depend only on the request, so that replies do not depend on the composition of batches.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import torch

from render_agent.engines.engine import THOUGHT_MARK_TOKENS, Request
from render_agent.engines.families.thinking import Thought
from render_agent.engines.transformers.constrained_decoding import Guide, allowed_tokens

if TYPE_CHECKING:
    from render_agent.engines.transformers.model.load import LoadedModel

INVALID = -1  # stands for the next token if the scores are not numbers

Script = Callable[[Request], str]
"""Returns the text of the reply to a request, to force replies.

The model does all its work, and only the choice of tokens is overridden. This makes benchmarks comparable with a model
whose replies are meaningless, such as one with random weights: every schedule processes exactly the same tokens.
"""


@dataclass(frozen=True, slots=True)
class Truncation:
    """Truncation of the sampling distribution."""

    top_k: int = 0  # number of most likely tokens to sample from; 0 for all
    top_p: float = 1.0  # probability mass of the tokens to sample from

    def apply(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores, (rows, vocabulary), with -inf for tokens that must not be sampled."""
        from transformers import TopKLogitsWarper, TopPLogitsWarper

        if self.top_k > 0:
            scores = TopKLogitsWarper(self.top_k)(None, scores)
        if self.top_p < 1:
            scores = TopPLogitsWarper(self.top_p)(None, scores)
        return scores


@dataclass(eq=False, kw_only=True)
class PartialReply:
    """A reply that is being generated."""

    dialogue_id: str = ""
    limit: int = 0  # maximum number of tokens, including `thought_limit`
    temperature: float = 0.0
    forced: Sequence[int] | None = None  # predetermined tokens, if any
    draws: Sequence[float] = ()
    """A random number in [0, 1) for every token; empty for greedy decoding."""
    guide: Guide | None = None  # constrains the reply to a schema
    thought: Thought | None = None  # state of thoughts, for models that have them
    thought_limit: int = 0  # maximum number of tokens that only a thought can use
    written: list[int] = field(default_factory=list)  # tokens generated so far
    invalid: bool = False  # True if the scores of a token were not numbers, which ends the reply

    def start_reply(self, loaded: LoadedModel, request: Request, number: int, prompt: str) -> None:
        """Prepare to generate sample `number` of the reply to a request, given the text of its prompt."""
        self.dialogue_id = request.dialogue_id
        self.forced = loaded.forced_tokens(request)
        self.temperature = request.temperature
        if request.temperature > 0:
            self.draws = uniform_draws(request, number)
        if loaded.guides is not None and request.schema is not None:
            self.guide = loaded.guides.start(request.schema, prompt)
        if loaded.marks is not None and self.forced is None:
            self.thought = Thought(loaded.marks, loaded.marks.left_open(prompt))
            if request.thinking_budget is not None:
                # If the dialogue is too long for both limits, the thought is shortened.
                self.thought_limit = max(0, self.limit - request.max_new_tokens)
                max_budget = max(0, self.thought_limit - THOUGHT_MARK_TOKENS)
                self.thought.budget = min(request.thinking_budget, max_budget)

    @property
    def due(self) -> int | None:
        """The next token if it does not depend on the model, otherwise None."""
        if self.forced is not None:
            return self.forced[len(self.written)]
        return None if self.thought is None else self.thought.due

    @property
    def thought_tokens(self) -> int:
        """Number of tokens in thoughts so far."""
        return 0 if self.thought is None else self.thought.tokens

    @property
    def is_unconstrained(self) -> bool:
        """True if the most likely token is chosen, whatever it is."""
        return not self.draws and (self.guide is None or self.guide.finished)

    def accepts(self, most_likely: int) -> bool:
        """True if the most likely token is chosen."""
        return not self.draws and (self.guide is None or self.guide.allows(most_likely))

    def is_finished(self, ends: Sequence[int]) -> bool:
        """True if the reply is complete; `ends` are the tokens that end a reply."""
        if self.invalid:
            return True
        extra = min(self.thought.spent, self.thought_limit) if self.thought is not None else 0
        is_full = len(self.written) - extra >= self.limit - self.thought_limit
        return is_full or (bool(self.written) and self.written[-1] in ends)

    def append(self, token: int) -> None:
        self.written.append(token)
        if self.thought is not None:
            self.thought.take(token)
        if self.guide is not None:
            self.guide.take(token)


OnLogits: TypeAlias = Callable[[torch.Tensor, Sequence[PartialReply]], None]
"""Is called with the logits of the next tokens, (rows, vocabulary), which are overwritten later."""


def uniform_draws(request: Request, sample: int) -> list[float]:
    """Return a random number in [0, 1) for every token of a sample.

    They depend only on the seed, the dialogue, the turn and the sample, and have 24 bits so that float32 represents them
    exactly.
    """
    name = f"{request.seed}\0{request.dialogue_id}\0{request.turn}\0{sample}"
    chance = random.Random(hashlib.sha256(name.encode()).digest())
    return [chance.getrandbits(24) / 2**24 for _ in range(request.token_limit)]


def most_likely_tokens(logits: torch.Tensor) -> torch.Tensor:
    """Return the most likely token of every row, (rows,) int64; INVALID if the row contains NaN or infinity.

    `argmax` takes NaN for the maximum, so only the score of that token has to be examined.
    """
    tokens = logits.argmax(-1)
    highest = logits.gather(-1, tokens[:, None])[:, 0]
    return tokens.where(highest.isfinite(), INVALID)


def choose_tokens(
    logits: torch.Tensor,
    most_likely: torch.Tensor,
    rows: Sequence[PartialReply],
    truncation: Truncation,
) -> list[int]:
    """Return the next token of every row, given logits, (rows, vocabulary) float32, which may be overwritten.

    `most_likely` are those of `most_likely_tokens`; INVALID remains.

    A greedy row whose guide allows the most likely token does not need a mask. On a GPU, whose logits are not computed
    yet, masks are prepared for all constrained rows meanwhile; otherwise only for the rows that need one.
    """
    is_async = logits.is_cuda
    tokens: list[int] = [] if is_async else most_likely.tolist()
    constrained = [
        index
        for index, row in enumerate(rows)
        if row.due is None
        and not row.is_unconstrained
        and (is_async or not (tokens[index] == INVALID or row.accepts(tokens[index])))
    ]
    with torch.inference_mode():
        if constrained:
            chosen = _choose_constrained(
                logits, constrained, [rows[index] for index in constrained], truncation
            )
            most_likely = torch.cat([most_likely, chosen])
        if constrained or is_async:
            tokens = most_likely.tolist()
    for index, token in zip(constrained, tokens[len(rows) :], strict=True):
        if tokens[index] not in (token, INVALID) and not rows[index].accepts(tokens[index]):
            tokens[index] = token
    return [
        token if token == INVALID or (due := row.due) is None else due
        for row, token in zip(rows, tokens, strict=False)
    ]


def _choose_constrained(
    logits: torch.Tensor,
    indices: Sequence[int],
    rows: Sequence[PartialReply],
    truncation: Truncation,
) -> torch.Tensor:
    """Return the next tokens of the rows at these indices, which are sampled or constrained, (indices,)."""
    allowed = None
    if any(row.guide is not None for row in rows):
        allowed = allowed_tokens([row.guide for row in rows], logits)
    if len(indices) < len(logits):
        logits = logits[indices]
    if allowed is not None:
        logits.masked_fill_(~allowed, -torch.inf)
    if any(row.draws for row in rows):
        draws = [row.draws[len(row.written)] if row.draws else 0.0 for row in rows]
        return sample_tokens(logits, draws, [row.temperature for row in rows], truncation)
    return logits.argmax(-1)


def sample_tokens(
    logits: torch.Tensor,
    draws: Sequence[float],
    temperatures: Sequence[float],
    truncation: Truncation,
) -> torch.Tensor:
    """Sample the token of every row from its logits, (rows, vocabulary), by inverting the cumulative distribution.

    `draws` are random numbers in [0, 1). At temperature 0, the most likely token is chosen.
    """
    # Metal has no float64.
    dtype = torch.float32 if logits.device.type == "mps" else torch.float64
    numbers = torch.tensor([draws, temperatures])
    if logits.is_cuda:
        numbers = numbers.pin_memory()
    thresholds, scale = numbers.to(logits.device, non_blocking=True)[:, :, None]
    is_sampled = scale > 0
    scaled = truncation.apply(logits / scale.where(is_sampled, 1))
    cumulative = scaled.to(dtype).softmax(-1).cumsum(-1)
    thresholds = thresholds.to(dtype) * cumulative[:, -1:]
    sampled = torch.searchsorted(cumulative, thresholds, right=True).clamp(max=logits.shape[1] - 1)
    return sampled.where(is_sampled, logits.argmax(-1, keepdim=True))[:, 0]


class TokenForcer:
    """A logits processor that leaves every row only the token that `choose_tokens` chooses.

    Finished rows get the first of `ends`, the tokens that end a reply.
    """

    def __init__(
        self,
        rows: Sequence[PartialReply],
        ends: Sequence[int],
        truncation: Truncation,
        on_logits: OnLogits = lambda *_: None,
    ) -> None:
        self.rows = rows
        self.ends = ends
        self.truncation = truncation
        self.on_logits = on_logits

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores, (rows, vocabulary), that are 0 for the chosen token and -inf for all others."""
        tokens = torch.full((len(scores), 1), self.ends[0] if self.ends else 0)
        live = [index for index, row in enumerate(self.rows) if not row.is_finished(self.ends)]
        logits = scores[live].float()
        rows = [self.rows[index] for index in live]
        self.on_logits(logits, rows)
        chosen = choose_tokens(logits, most_likely_tokens(logits), rows, self.truncation)
        for index, row, token in zip(live, rows, chosen, strict=True):
            if token == INVALID:
                row.invalid = True
                continue
            row.append(token)
            tokens[index] = token
        return torch.full_like(scores, -torch.inf).scatter(1, tokens.to(scores.device), 0)
