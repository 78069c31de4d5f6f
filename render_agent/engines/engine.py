"""The engine protocol: `Request` in, `Reply` out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, TypeVar

from PIL.Image import Image

from render_agent.dialogue.chat import Blocks, Message, View, map_texts
from render_agent.dialogue.tokens import Tokens
from render_agent.dialogue.turn import ProbeRequest
from render_agent.util.sanitize import redact_keys

MAX_BYTES_PER_TOKEN = (
    64  # limit for a reply; words take 4 to 8 bytes per token, runs of spaces more
)
REPLY_OVERHEAD_BYTES = 4096  # maximum text that an engine adds around the tokens of a reply
MAX_REPLY_BYTES = 4 << 20  # limit for any reply, because a turn must fit in one line of the log
THOUGHT_MARK_TOKENS = 2  # tokens of the opening and the closing mark of a thought

T = TypeVar("T")


def reply_bytes(tokens: int) -> int:
    """Return the largest size in bytes of a reply of this many tokens."""
    return MAX_BYTES_PER_TOKEN * tokens + REPLY_OVERHEAD_BYTES


def max_reply_tokens(max_new_tokens: int, thinking_budget: int | None) -> int:
    """Return the token limit of a reply, including its thought and the marks around it."""
    return max_new_tokens + (
        0 if thinking_budget is None else thinking_budget + THOUGHT_MARK_TOKENS
    )


@dataclass(frozen=True, slots=True)
class Request:
    """One turn of one dialogue, to be answered by an engine."""

    dialogue_id: str
    turn: int
    messages: Sequence[Message]
    """The whole dialogue. It only grows, except that `--history` replaces images by placeholders; an engine may cache
    earlier computation until `retire`, up to the first message that differs."""
    load_image: Callable[[str], Image]
    """Returns the RGB image for a file name in `messages`."""
    views: Sequence[View] = ()
    """All views of the dialogue with their cameras, for scripted policies. Never passed to a model."""
    is_last_turn: bool = False
    """True if no turn follows."""
    num_samples: int = 1
    temperature: float = 0.0
    seed: int = 0
    max_new_tokens: int = 512
    thinking_budget: int | None = None
    """Tokens for thinking in addition to `max_new_tokens`; None counts thinking against that limit."""
    schema: Mapping[str, Any] | None = None
    """JSON schema that constrains the reply; None for free text."""
    question_id: str = ""
    """Id of the question, which may have several dialogues; by default, `dialogue_id`."""
    tools: Sequence[Mapping[str, Any]] | None = None
    """Tools that the reply may call, as in chat completions; None if it is plain text."""
    probe: ProbeRequest | None = None
    """What is asked after a turn, outside the dialogue; None in a regular turn."""
    restates: bool = False
    """True if it asks for only the answer once more, because the last turn's reply gave none that could be read."""

    def __post_init__(self) -> None:
        if not self.question_id:
            object.__setattr__(self, "question_id", self.dialogue_id)

    @property
    def distinct_samples(self) -> int:
        """Number of samples that can differ: one with greedy decoding."""
        return self.num_samples if self.temperature > 0 else 1

    def all_samples(self, distinct: Sequence[T]) -> tuple[T, ...]:
        """Repeat the distinct samples to the requested number of samples."""
        return tuple(distinct) * (self.num_samples // len(distinct))

    @property
    def token_limit(self) -> int:
        """Token limit of one sample, including its thought and the marks around it."""
        return max_reply_tokens(self.max_new_tokens, self.thinking_budget)


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply to one request: its samples, or the reason why there are none."""

    samples: tuple[str, ...] = ()
    """The texts, as many as requested; empty if `error` is set."""
    tokens: Tokens = Tokens()
    """Token counts, summed over the samples."""
    seconds: float = 0.0
    """Duration of the batch that contained the request."""
    batch_size: int = 1
    finish: Literal["stop", "length"] = "stop"
    """`length` if the token limit cut the reply off."""
    error: str | None = None
    events: tuple[str, ...] = ()
    """Kinds of recovered faults, such as `out_of_memory` or `retried`. One reply per batch reports them."""
    cause: Exception | None = None
    """The exception behind `error`, for the traceback."""
    blocks: tuple[Blocks, ...] = ()
    """For each sample, the content that the API requires back verbatim in later requests; empty for none."""

    @property
    def text(self) -> str:
        """The first sample."""
        return self.samples[0]


def merge_samples(
    request: Request, parts: Sequence[Reply], seconds: float, events: Sequence[str] = ()
) -> Reply:
    """Combine the replies to the samples of a request; an error in one of them is the result."""
    if (error := next((part.error for part in parts if part.error is not None), None)) is not None:
        return Reply(error=error, events=tuple(events))
    blocks = [
        sample_blocks
        for part in parts
        for sample_blocks in part.blocks or ((),) * len(part.samples)
    ]
    return Reply(
        samples=request.all_samples([text for part in parts for text in part.samples]),
        blocks=request.all_samples(blocks) if any(blocks) else (),
        tokens=Tokens.total(part.tokens for part in parts),
        seconds=seconds,
        batch_size=max(part.batch_size for part in parts),
        finish="length" if any(part.finish == "length" for part in parts) else "stop",
        events=tuple(events),
    )


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine supports."""

    streaming: bool = False
    """Returns each reply as soon as it is complete. Otherwise full batches of `batch_size` work best."""
    guided_decoding: bool = False
    """Constrains replies to `Request.schema`."""
    scoring: bool = False
    """Implements `Scorer`."""
    sequential: bool = False
    """Works best one dialogue after the other, such as a person or a server with a small cache."""
    side_dialogues: bool = True
    """Can be asked outside the dialogue."""
    prefetch: bool = False
    """Implements `Prefetcher`."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Properties of a run that engines use for sizing."""

    max_images: int
    """Largest number of images in a prompt."""
    dialogues_per_question: int = 1
    """Number of concurrent dialogues per question."""
    kinds: tuple[str, ...] = ()
    """View types that a reply can request."""
    tools: Sequence[Mapping[str, Any]] | None = None
    """Tools that a reply can call; None if replies are plain text."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Log-probabilities of the choices of one request."""

    log_probabilities: tuple[float, ...] = ()
    """Natural logarithm of the probability that the reply starts with each choice; empty on error."""
    tokens: Tokens = Tokens()
    """Token counts; `reply` counts the tokens of the choices."""
    seconds: float = 0.0
    batch_size: int = 1
    error: str | None = None
    events: tuple[str, ...] = ()
    """Kinds of recovered faults, as in `Reply.events`."""


class Scorer(Protocol):
    """Optional interface of engines that can score given replies without generating any."""

    def score(self, requests: Sequence[Request], choices: Sequence[Sequence[str]]) -> list[Scores]:
        """Score the choices of every request.

        Args:
            requests: The requests. If one cannot be scored, its `Scores.error` is set.
            choices: The replies to score, one sequence per request.

        Returns:
            One `Scores` per request, in the same order.

        Raises:
            EngineError: The engine has shut down.
        """
        ...


class Prefetcher(Protocol):
    """Optional interface of engines that can read prompts ahead."""

    def prefetch(self, requests: Sequence[Request]) -> None:
        """Read the prompts of requests that will be submitted later, while no submitted request waits.

        A request that is submitted with the same `messages` object uses the prompt. Requests that are never submitted
        must do no harm. The replies must not depend on it.
        """
        ...


class Engine(Protocol):
    """Answers requests. Not thread-safe: one thread owns an engine; only `wake` may be called from others."""

    name: str
    capabilities: Capabilities

    @property
    def batch_size(self) -> int:
        """Number of requests per call, or in flight at once."""
        ...

    @property
    def calls(self) -> int:
        """Number of model calls so far."""
        ...

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer all requests and block until the last reply is complete.

        Args:
            requests: The requests. If one fails, its `Reply.error` is set.

        Returns:
            One reply per request, in the same order.

        Raises:
            EngineError: The engine has shut down.
        """
        ...

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests; `ready` returns their replies."""
        ...

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Wait for at least one submitted request to complete, and yield all completed ones.

        Args:
            timeout: Seconds after which a free-running engine yields nothing, so that more requests
                can be submitted; None waits without limit.

        Yields:
            Pairs of a request and its reply; nothing if no request is in flight.

        Raises:
            EngineError: The engine has shut down.
        """
        ...

    def wake(self) -> None:
        """Interrupt the current or the next wait in `ready`, so that more requests can be submitted.

        Can be called from any thread. Engines that are not free-running ignore it.
        """
        ...

    def retire(self, dialogue_id: str) -> None:
        """Free everything cached for a dialogue that has ended."""
        ...

    def close(self) -> None:
        """Release memory, connections and processes."""
        ...


@dataclass
class BatchingEngine(ABC):
    """Base class for engines that answer one batch of requests per call.

    Subclasses implement `answer`. They may override `arrange` and `choose` to group requests.

    Args:
        batch_size: Largest number of requests per call of `answer`.
    """

    batch_size: int = 16
    calls: int = field(default=0, init=False)
    _waiting: list[Request] = field(default_factory=list, init=False, repr=False)

    @abstractmethod
    def answer(self, requests: Sequence[Request]) -> list[Reply]:
        """Answer one batch.

        Args:
            requests: At most `batch_size` requests.

        Returns:
            One reply per request, in the same order.
        """

    def arrange(self, requests: Sequence[Request]) -> list[list[int]]:
        """Split the indices of all requests into batches; by default in order."""
        rows = list(range(len(requests)))
        return [rows[at : at + self.batch_size] for at in rows[:: self.batch_size]]

    def choose(self, requests: Sequence[Request]) -> list[int]:
        """Return the sorted indices of the next batch, which must include 0, the oldest request."""
        return list(range(len(requests)))[: self.batch_size]

    def generate(self, requests: Sequence[Request]) -> list[Reply]:
        """Return a reply for every request, in the same order."""
        replies: dict[int, Reply] = {}
        for rows in self.arrange(requests):
            batch = [requests[row] for row in rows]
            replies.update(zip(rows, self._call(batch), strict=True))
        return [replies[row] for row in range(len(requests))]

    def submit(self, requests: Sequence[Request]) -> None:
        """Queue requests; `ready` returns their replies."""
        self._waiting.extend(requests)

    def ready(self, timeout: float | None = None) -> Iterator[tuple[Request, Reply]]:
        """Answer one batch of the submitted requests."""
        if self._waiting:
            rows = self.choose(self._waiting)
            batch = [self._waiting[row] for row in rows]
            row_set = set(rows)
            self._waiting = [r for row, r in enumerate(self._waiting) if row not in row_set]
            yield from zip(batch, self._call(batch), strict=True)

    def wake(self) -> None:  # noqa: B027 - `ready` never waits
        """Do nothing: `ready` never waits."""

    def retire(self, dialogue_id: str) -> None:  # noqa: B027 - most engines have no cache
        """Do nothing: there is no cache by default."""

    def close(self) -> None:  # noqa: B027 - most engines hold no resources
        """Do nothing: there are no resources by default."""

    def _call(self, batch: Sequence[Request]) -> list[Reply]:
        self.calls += 1
        return self.answer(batch)


# Appended to a reply that was cut.
CUT_MARK = "… [cut: {more:,} bytes more than {tokens:,} tokens can be]"


def limit_reply(reply: Reply, request: Request) -> Reply:
    """Return the reply with its samples cut to the allowed length and secrets from the environment removed."""
    samples = tuple(
        truncate_reply(redact_keys(text), request.token_limit) for text in reply.samples
    )
    error = None if reply.error is None else redact_keys(reply.error)
    blocks = tuple(
        tuple(map_texts(redact_keys, list(sample_blocks))) for sample_blocks in reply.blocks
    )
    if (samples, error, blocks) == (reply.samples, reply.error, reply.blocks):
        return reply
    is_cut = any(
        len(after) < len(before) for after, before in zip(samples, reply.samples, strict=True)
    )
    finish = "length" if is_cut else reply.finish
    return replace(reply, samples=samples, error=error, blocks=blocks, finish=finish)


def truncate_reply(text: str, tokens: int) -> str:
    """Return the text, cut and marked if it is longer than this many tokens can be."""
    max_bytes = min(reply_bytes(tokens), MAX_REPLY_BYTES)
    if len(text) * 4 <= max_bytes:  # a character has at most 4 bytes in UTF-8
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return text
    beginning = data[:max_bytes].decode("utf-8", "ignore")
    return beginning + CUT_MARK.format(more=len(data) - max_bytes, tokens=tokens)
