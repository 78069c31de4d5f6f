"""Which token comes next in every row: the likeliest, one drawn, one that a guide allows, one that is forced.

What a row draws depends on its request alone, so that a batch may be put together in any way.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from render_agent.engines.engine import MARK_TOKENS, Request
from render_agent.engines.families.thinking import Thought
from render_agent.engines.transformers.constrained_decoding import Guide, allowed_tokens

if TYPE_CHECKING:
    from render_agent.engines.transformers.model.load import LoadedModel

Script = Callable[[Request], str]
"""Gives the text that the reply to a request will be, where replies are forced.

Then the model does all its work, and only its choice is overridden. That is how schedules are measured
with a model whose own words mean nothing, such as one with random weights: every schedule then has to
read and write exactly the same.
"""


@dataclass(frozen=True, slots=True)
class Truncation:
    """Which tokens may be drawn: the `top_k` likeliest (0: all), of these the likeliest that hold `top_p`."""

    top_k: int = 0
    top_p: float = 1.0

    def apply(self, scores: torch.Tensor) -> torch.Tensor:
        """Return the scores (rows, vocabulary) with -inf where a token may not be drawn."""
        from transformers import TopKLogitsWarper, TopPLogitsWarper

        if self.top_k > 0:
            scores = TopKLogitsWarper(self.top_k)(None, scores)
        if self.top_p < 1:
            scores = TopPLogitsWarper(self.top_p)(None, scores)
        return scores


@dataclass(eq=False, kw_only=True)
class Writing:
    """A reply that is being written: what its tokens are chosen by, and those that there are.

    limit: of its tokens, `thought_room` of which are for a thought alone. forced: those that it will be, whatever
    the model makes of it. draws: a number in [0, 1) for every token, none where it is greedy. guide: what holds it
    to a form. thought: what it thinks, for models that can.
    """

    limit: int = 0
    temperature: float = 0.0
    forced: Sequence[int] | None = None
    draws: Sequence[float] = ()
    guide: Guide | None = None
    thought: Thought | None = None
    thought_room: int = 0
    written: list[int] = field(default_factory=list)

    def begin(self, loaded: LoadedModel, request: Request, number: int, prompt: str) -> None:
        """Get ready to write one sample of the reply to a request whose prompt is this text."""
        self.forced = loaded.forced_tokens(request)
        self.temperature = request.temperature
        if request.temperature > 0:
            self.draws = uniform_draws(request, number)
        if loaded.guides is not None and request.schema is not None:
            self.guide = loaded.guides.start(request.schema, prompt)
        if loaded.marks is not None and self.forced is None:
            self.thought = Thought(loaded.marks, loaded.marks.left_open(prompt))
            if request.thinking_budget is not None:
                # Where a dialogue may not grow so long, the thought is the shorter one.
                self.thought_room = max(0, self.limit - request.max_new_tokens)
                most = max(0, self.thought_room - MARK_TOKENS)
                self.thought.budget = min(request.thinking_budget, most)

    @property
    def due(self) -> int | None:
        """The token that comes next whatever the model makes of it, None where there is none."""
        if self.forced is not None:
            return self.forced[len(self.written)]
        return None if self.thought is None else self.thought.due

    @property
    def thought_tokens(self) -> int:
        """How many of its tokens were thought."""
        return 0 if self.thought is None else self.thought.tokens

    @property
    def is_free(self) -> bool:
        """Whether the likeliest token is written, whatever it is."""
        return not self.draws and (self.guide is None or self.guide.finished)

    def keeps(self, likeliest: int) -> bool:
        """Whether the likeliest token is written."""
        return not self.draws and (self.guide is None or self.guide.allows(likeliest))

    def ended(self, ends: Sequence[int]) -> bool:
        """Whether there is nothing more to write. ends: the tokens that end a reply."""
        apart = min(self.thought.spent, self.thought_room) if self.thought is not None else 0
        full = len(self.written) - apart >= self.limit - self.thought_room
        return full or (bool(self.written) and self.written[-1] in ends)

    def take(self, token: int) -> None:
        """Go on behind a token."""
        self.written.append(token)
        if self.thought is not None:
            self.thought.take(token)
        if self.guide is not None:
            self.guide.take(token)


def uniform_draws(request: Request, sample: int) -> list[float]:
    """Return a number in [0, 1) for every step of one sample, the same whenever it is asked.

    They depend on seed, question, turn and sample; of 24 bits, so that float32 holds them exactly.
    """
    name = f"{request.seed}\0{request.question_id}\0{request.turn}\0{sample}"
    chance = random.Random(hashlib.sha256(name.encode()).digest())
    return [chance.getrandbits(24) / 2**24 for _ in range(request.most_tokens)]


def choose_tokens(
    logits: torch.Tensor, likeliest: torch.Tensor, rows: Sequence[Writing], truncation: Truncation
) -> list[int]:
    """Return the next token of every row.

    logits: (rows, vocabulary) float32, which may be overwritten. likeliest: the likeliest token of every row,
    (rows,). A greedy row whose guide takes the likeliest token writes it: masked, it would be the likeliest
    still. On a GPU, which is at work on the logits yet, masks are made meanwhile for all; elsewhere for those
    rows alone that need one.
    """
    early = logits.is_cuda
    tokens: list[int] = [] if early else likeliest.tolist()
    again = [
        place
        for place, row in enumerate(rows)
        if row.due is None and not row.is_free and (early or not row.keeps(tokens[place]))
    ]
    with torch.inference_mode():
        if again:
            chosen = _chosen(logits, again, [rows[place] for place in again], truncation)
            likeliest = torch.cat([likeliest, chosen])
        if again or early:
            tokens = likeliest.tolist()
    for place, token in zip(again, tokens[len(rows) :], strict=True):
        if not rows[place].keeps(tokens[place]):
            tokens[place] = token
    return [
        token if (due := row.due) is None else due for row, token in zip(rows, tokens, strict=False)
    ]


def _chosen(
    logits: torch.Tensor, places: Sequence[int], rows: Sequence[Writing], truncation: Truncation
) -> torch.Tensor:
    """Return the tokens of the rows at some places, which draw or are held to a form, (places,)."""
    allowed = None
    if any(row.guide is not None for row in rows):
        allowed = allowed_tokens([row.guide for row in rows], logits)
    if len(places) < len(logits):
        logits = logits[places]
    if allowed is not None:
        logits.masked_fill_(~allowed, -torch.inf)
    if any(row.draws for row in rows):
        draws = [row.draws[len(row.written)] if row.draws else 0.0 for row in rows]
        return drawn_tokens(logits, draws, [row.temperature for row in rows], truncation)
    return logits.argmax(-1)


def drawn_tokens(
    logits: torch.Tensor, draws: Sequence[float], heats: Sequence[float], truncation: Truncation
) -> torch.Tensor:
    """Return the token that every row's number in [0, 1) stands for, (rows,); the likeliest at temperature 0.

    It inverts the cumulative distribution. logits: (rows, vocabulary). heats: temperatures.
    """
    # Metal has no float64.
    exact = torch.float32 if logits.device.type == "mps" else torch.float64
    numbers = torch.tensor([draws, heats])
    if logits.is_cuda:
        numbers = numbers.pin_memory()
    heights, temperatures = numbers.to(logits.device, non_blocking=True)[:, :, None]
    sampled = temperatures > 0
    tempered = truncation.apply(logits / temperatures.where(sampled, 1))
    cumulative = tempered.to(exact).softmax(-1).cumsum(-1)
    heights = heights.to(exact) * cumulative[:, -1:]
    drawn = torch.searchsorted(cumulative, heights, right=True).clamp(max=logits.shape[1] - 1)
    return drawn.where(sampled, logits.argmax(-1, keepdim=True))[:, 0]


class ChosenRows:
    """A logits processor that leaves every row the one token that `choose_tokens` takes for it.

    end: the token of rows that have ended.
    """

    def __init__(
        self, rows: Sequence[Writing], ends: Sequence[int], truncation: Truncation
    ) -> None:
        self.rows = rows
        self.ends = ends
        self.truncation = truncation

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return scores (rows, vocabulary) that are 0 for the token of this step, else -inf."""
        tokens = torch.full((len(scores), 1), self.ends[0] if self.ends else 0)
        live = [place for place, row in enumerate(self.rows) if not row.ended(self.ends)]
        logits = scores[live].float()
        rows = [self.rows[place] for place in live]
        for place, row, token in zip(
            live, rows, choose_tokens(logits, logits.argmax(-1), rows, self.truncation), strict=True
        ):
            row.take(token)
            tokens[place] = token
        return torch.full_like(scores, -torch.inf).scatter(1, tokens.to(scores.device), 0)
