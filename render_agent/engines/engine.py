"""The protocol of engines, which answer requests: messages → Reply."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from PIL.Image import Image

from render_agent.dialogue.chat import Message
from render_agent.dialogue.probe import ProbeRequest
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.view import View
from render_agent.util.redact import without_keys

BYTES_A_TOKEN = 64
"""Of a reply, at the most: words take 4 to 8, runs of spaces more."""

SPARE_REPLY_BYTES = 4096
"""Of a reply beyond its tokens: what an engine writes around them."""

MAX_REPLY_BYTES = 4 << 20
"""Of a reply, however many tokens it may have: its turn has to fit a line of the log."""


MARK_TOKENS = 2
"""Of a thought beside its own: what opens and what closes it."""


def reply_bytes(tokens: int) -> int:
    """Return how many bytes a reply of so many tokens takes at the most."""
    return BYTES_A_TOKEN * tokens + SPARE_REPLY_BYTES


def longest_reply(max_new_tokens: int, thinking_budget: int | None) -> int:
    """Return how many tokens a reply has at the most, its thought with its marks included."""
    return max_new_tokens + (0 if thinking_budget is None else thinking_budget + MARK_TOKENS)


@dataclass(frozen=True, slots=True)
class Request:
    """One turn of one question, asked of an engine.

    question_id: what its dialogue goes by; `about` has the id of the question itself where that has more
    than one dialogue. messages: the whole dialogue; those of one id only ever grow, so an engine may keep
    what it computed for the earlier ones until `retire`. picture: gives the RGB picture of an image
    entry's file. views: those of the whole dialogue with the cameras they were taken with, for whoever
    answers without reading pictures; no model is given them. last: whether no turn follows. thinking_budget: how
    many tokens of thought may come beside `max_new_tokens` of reply; None where these are for both. schema: the
    JSON schema of the reply, None where anything goes. probe: what it asks the model to believe, None in a turn of
    the dialogue.
    """

    question_id: str
    turn: int
    messages: Sequence[Message]
    picture: Callable[[str], Image]
    views: Sequence[View] = ()
    last: bool = False
    samples: int = 1
    temperature: float = 0.0
    seed: int = 0
    max_new_tokens: int = 512
    thinking_budget: int | None = None
    schema: Mapping[str, Any] | None = None
    about: str | None = None
    probe: ProbeRequest | None = None

    @property
    def distinct_samples(self) -> int:
        """How many of the samples can differ: greedily, one."""
        return self.samples if self.temperature > 0 else 1

    def all_samples(self, distinct: Sequence[str]) -> tuple[str, ...]:
        """Return as many samples as are asked for, from those that can differ."""
        return tuple(distinct) * (self.samples // len(distinct))

    @property
    def most_tokens(self) -> int:
        """The most tokens that a sample may have, its thought with its marks included."""
        return longest_reply(self.max_new_tokens, self.thinking_budget)


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one request: its samples, or why there are none.

    samples: the texts, as many as were asked for; empty where `error` says why there is none.
    tokens: summed over samples. seconds: how long its batch took. finish: `length` where the token
    limit cut the reply off. events: what went wrong on the way and was mended, by kind, such as
    `out_of_memory` or `retried`; an event of a batch is told by one of its replies.
    """

    samples: tuple[str, ...] = ()
    tokens: Tokens = Tokens()
    seconds: float = 0.0
    batch_size: int = 1
    finish: Literal["stop", "length"] = "stop"
    error: str | None = None
    events: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The first sample."""
        return self.samples[0]


def reply_of(
    request: Request, parts: Sequence[Reply], seconds: float, events: Sequence[str] = ()
) -> Reply:
    """Return the reply to a request from those to its samples; an error where any of these has one."""
    if (error := next((part.error for part in parts if part.error is not None), None)) is not None:
        return Reply(error=error, events=tuple(events))
    return Reply(
        samples=request.all_samples([text for part in parts for text in part.samples]),
        tokens=Tokens.total(part.tokens for part in parts),
        seconds=seconds,
        batch_size=max(part.batch_size for part in parts),
        finish="length" if any(part.finish == "length" for part in parts) else "stop",
        events=tuple(events),
    )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do.

    free_running: it answers requests one by one as they finish, so that none waits for a batch;
    otherwise it answers best when handed a full batch of `batch_size`. schema: it holds replies to
    `Request.schema`. score: it is a `Scorer`. one_dialogue: it answers best when dialogues are led
    through, as a person does or a server that keeps few of them: no turns are batched over all questions.
    probes: it may be asked beside the dialogue what it believes, as a person who plays is not.
    """

    free_running: bool = False
    schema: bool = False
    score: bool = False
    one_dialogue: bool = False
    probes: bool = True


@dataclass(frozen=True, slots=True)
class Workload:
    """What a run demands of its engine.

    Attributes:
        pictures: The largest number of images in a prompt.
        dialogues: The number of dialogues that each question has side by side.
        kinds: The kinds of view that a reply may request.
    """

    pictures: int
    dialogues: int = 1
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scores:
    """How likely the given answers to one request are.

    log_probabilities: of each choice as the reply's beginning, its tokens' summed, natural
    logarithm; empty where `error` says why there are none. tokens: `reply` counts those of the choices.
    events: as those of a `Reply`.
    """

    log_probabilities: tuple[float, ...] = ()
    tokens: Tokens = Tokens()
    seconds: float = 0.0
    batch_size: int = 1
    error: str | None = None
    events: tuple[str, ...] = ()


class Scorer(Protocol):
    """The second, optional verb of an engine: nothing is generated."""

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        """Return for every request, in their order, how likely each of its choices is.

        A fault of one request is its `Scores.error`. EngineError where the engine is gone.
        """
        ...


class Engine(Protocol):
    """Answers requests; owned by one thread."""

    name: str
    capabilities: Capabilities

    @property
    def batch_size(self) -> int:
        """Requests in one call, or under way at once."""
        ...

    @property
    def calls(self) -> int:
        """How often the model was called so far."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order (a barrier).

        A fault of one request is its `Reply.error`. EngineError where the engine is gone.
        """
        ...

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give."""
        ...

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait until at least one submitted request is answered and give those that are.

        timeout: seconds after which a free-running engine gives nothing, so that others may be
        submitted meanwhile. Gives nothing where nothing is under way. EngineError where the engine
        is gone.
        """
        ...

    def wake(self) -> None:
        """Have a free-running `ready` that waits give nothing, so that others may be submitted.

        One that does not wait now waits no longer the next time. May be called from any thread.
        """
        ...

    def retire(self, question_id: str) -> None:
        """Free what was kept for a question that asks no more."""
        ...

    def close(self) -> None:
        """Give back memory, connections and processes."""
        ...


@dataclass
class BatchingEngine(ABC):
    """The free-running form for engines that answer a whole batch at a time.

    A subclass gives `answer`, which answers at most `batch_size` requests in one call of the model;
    `calls` counts those calls. It may group requests by overriding `arrange` and `choose`.
    """

    batch_size: int = 16
    calls: int = field(default=0, init=False)
    _waiting: list[Request] = field(default_factory=list, init=False, repr=False)

    @abstractmethod
    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request of one batch, in their order."""

    def arrange(self, requests: Sequence[Request]) -> list[list[int]]:
        """Return the places of all requests, batch after batch; here in their order."""
        rows = list(range(len(requests)))
        return [rows[at : at + self.batch_size] for at in rows[:: self.batch_size]]

    def choose(self, requests: Sequence[Request]) -> list[int]:
        """Return the places of the next batch, in their order; the first, which waits longest, is in it."""
        return list(range(len(requests)))[: self.batch_size]

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in their order, batch after batch."""
        replies: dict[int, Reply] = {}
        for rows in self.arrange(requests):
            batch = [requests[row] for row in rows]
            replies.update(zip(rows, self._call(batch), strict=True))
        return [replies[row] for row in range(len(requests))]

    def submit(self, requests: Sequence[Request]) -> None:
        """Hand over requests whose replies `ready` will give."""
        self._waiting.extend(requests)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Answer one batch of what was submitted."""
        if self._waiting:
            rows = self.choose(self._waiting)
            batch = [self._waiting[row] for row in rows]
            chosen = set(rows)
            self._waiting = [r for row, r in enumerate(self._waiting) if row not in chosen]
            yield from zip(batch, self._call(batch), strict=True)

    def wake(self) -> None:  # noqa: B027 - what batches does not wait
        """Nothing waits."""

    def retire(self, question_id: str) -> None:  # noqa: B027 - most engines keep nothing
        """Nothing is kept."""

    def close(self) -> None:  # noqa: B027 - most engines hold nothing
        """Nothing is held."""

    def _call(self, batch: Sequence[Request]) -> list[Reply]:
        self.calls += 1
        return self.answer(batch)


CUT_MARK = "… [cut: {more:,} bytes more than {tokens:,} tokens can be]"
"""Ends a reply that was cut."""


def within_bounds(reply: Reply, request: Request) -> Reply:
    """Return a reply whose samples are as long as its request allows, with no key of the environment in it."""
    samples = tuple(bounded(without_keys(text), request.most_tokens) for text in reply.samples)
    error = None if reply.error is None else without_keys(reply.error)
    if samples == reply.samples and error == reply.error:
        return reply
    cut = any(
        len(after) < len(before) for after, before in zip(samples, reply.samples, strict=True)
    )
    return replace(reply, samples=samples, error=error, finish="length" if cut else reply.finish)


def bounded(text: str, tokens: int) -> str:
    """Return a text, cut with a mark where it is longer than so many tokens can be."""
    most = min(reply_bytes(tokens), MAX_REPLY_BYTES)
    if len(text) * 4 <= most:  # no character has more bytes
        return text
    written = text.encode("utf-8", "surrogatepass")
    if len(written) <= most:
        return text
    kept = written[:most].decode("utf-8", "ignore")
    return kept + CUT_MARK.format(more=len(written) - most, tokens=tokens)
