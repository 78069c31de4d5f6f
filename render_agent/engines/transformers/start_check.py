"""Compares an engine with the plain forward pass of its model before a run, and switches off the parts that fail.

Two dialogues of two turns are answered as in the run: with images, the cache, reuse, CUDA graphs of one and two rows, and
constrained decoding. Their logits are compared with those that the library computes for the same tokens without a cache.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Reply, Request
from render_agent.engines.memory.faults import Fault, attempt, attempt_with_retries
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.sampling import PartialReply
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import SetupError
from render_agent.util.display import stage

LOG = logging.getLogger(__name__)
LocalEngine: TypeAlias = ContinuousEngine | TransformersEngine
Recorded: TypeAlias = "dict[str, tuple[PartialReply, list[torch.Tensor]]]"
"""By dialogue, the reply and the logits of each of its tokens, (vocabulary,)."""

# Largest difference between logits in float32, relative to their range: rounding is far below, a wrong position above.
MAX_EXACT_DIFFERENCE = 1e-3

# In half precision, the difference may be this many times the difference between two exact implementations of attention.
# The root mean square is compared: two real errors (mixed and decayed recurrent states) increased it several times, but
# not the largest difference.
TOLERANCE_FACTOR = 3.0
# Lower bound of the difference between implementations: recurrent layers round differently token by token.
MIN_SPREAD = {torch.bfloat16: 8e-4, torch.float16: 1.5e-4}

MAX_SECONDS = 15.0  # limit for devices other than GPUs, beyond which only one token is compared
FULL_COST = 15  # seconds of the whole comparison per second of a forward pass of the shorter prompt

INSTRUCTIONS = "Look around the room, and say in a few words what the images show. "
# Several trials, because in half precision a router of experts can choose other experts in one of them.
TEXTS = ("What do you see? ", "Where would you go now? ", "Is it far to the door? ")
SCHEMA = {"enum": ["left", "right"]}  # constrains the replies of the second turn
# Of the long dialogue and of the short one, so that calls have two rows, then one.
REPLY_TOKENS = (6, 4)
ALIGNED_TOKENS = 32

SIZES = {"narrow": (96, 128), "wide": (160, 96), "small": (64, 64), "other": (64, 64)}
IMAGES = ((("narrow", "wide"), ("small",)), (("other",), ()))  # by dialogue and turn


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between logits of the engine and of plain forward passes, relative to their range."""

    value: float = 0.0  # NaN if those of the plain forward pass are not numbers
    tolerance: float = 0.0
    error: str | None = None  # why the engine has failed

    @property
    def reason(self) -> str | None:
        """Why the engine is wrong; None if it is not."""
        if self.error is not None or self.value <= self.tolerance:
            return self.error
        return (
            f"logits differ by {self.value:.2g} of their range from a plain forward pass, more than the"
            f" {self.tolerance:.2g} that rounding explains"
        )


def check_start(
    engine: LocalEngine, plain_engine: Callable[..., TransformersEngine]
) -> tuple[LocalEngine, dict[str, Any]]:
    """Return the engine without the part that fails, and the record of the check for `config.json`.

    `plain_engine` builds one without pages. Raises SetupError if logits of the plain forward pass are not numbers.
    """
    probe, first = Probe(engine.loaded), None
    caveats: list[str] = []
    with stage("checking the engine", announce=True):
        for part, checked in _attempts(engine, plain_engine):
            result = probe.compare(checked)
            difference = Difference() if isinstance(result, Fault) else result
            if part and difference.reason is None:
                caveats = [f"start check: {part} off: {first}"]
            if isinstance(result, Fault):
                caveats = [*caveats, f"start check: not possible ({result.reason})"]
            if difference.reason is None:
                break
            first = first or difference.reason
            caveats = [f"start check: the engine is not exact: {first}"]
            LOG.warning("start check, %s off: %s", part or "nothing", difference.reason)
    if not probe.is_complete:
        LOG.info("start check: only one token was compared, because the device is slow or busy")
    return checked, {
        "difference": difference.value,
        "tolerance": difference.tolerance,
        "complete": probe.is_complete,
        "caveats": caveats,
    }


def _attempts(
    engine: LocalEngine, plain_engine: Callable[..., TransformersEngine]
) -> Iterator[tuple[str, LocalEngine]]:
    """Yield the engine, then without each part, with the name of the part."""
    yield "", engine
    if isinstance(engine, ContinuousEngine):
        for parts in engine.scheduler.fallbacks:
            engine.scheduler.switch_off(parts)
            yield " and ".join(parts), engine
        engine.release()
        yield "pages", (engine := plain_engine())
    engine.release()
    yield "batches", plain_engine(single=True)


@dataclass
class Probe:
    """The dialogues of the start check, and the logits of plain forward passes."""

    loaded: LoadedModel
    is_complete: bool = True  # False if the device is too slow for more than one token
    _plain: dict[Any, torch.Tensor] = field(default_factory=dict)

    def compare(self, engine: LocalEngine) -> Difference | Fault:
        """Compare an engine; a fault if that is not possible. Raises SetupError if plain logits are not numbers."""
        for text in TEXTS[:1] if self._is_exact else TEXTS:
            try:
                difference = attempt_with_retries(
                    partial(self._compare, engine, text), self.loaded.model.device
                )
            finally:
                engine.forget([f"start check {number}" for number in range(len(IMAGES))])
            if isinstance(difference, Fault):
                return difference
            if math.isnan(difference.value):
                raise SetupError(self.loaded.invalid_scores())
            if difference.reason is None:
                return difference
        return difference

    def _compare(self, engine: LocalEngine, text: str) -> Difference:
        """Compare one trial. Raises any error of the library."""
        differences, spreads = list[torch.Tensor](), list[torch.Tensor]()
        requests = [
            misalign(self.loaded, first_request(number, text, *files))
            for number, (files, _) in enumerate(IMAGES)
        ]
        began, prompt = time.perf_counter(), self.loaded.inputs.prepare(requests[-1])
        if not self._logits(prompt).isfinite().all():
            return Difference(math.nan)
        seconds = time.perf_counter() - began
        if self.loaded.model.device.type != "cuda":
            self.is_complete = self.is_complete and self._is_fast(prompt, seconds)
        if not self.is_complete:
            requests = [replace(requests[-1], max_new_tokens=1)]
        for _ in range(2 if self.is_complete else 1):
            with record_logits(engine) as recorded:
                replies = attempt(partial(answer, engine, requests), self.loaded.model.device)
            if isinstance(replies, Fault):
                return Difference(error=replies.reason)
            prompts = [self.loaded.inputs.prepare(request) for request in requests]
            first_rows = []
            for request, prompt in zip(requests, prompts, strict=True):
                reply = replies[request.dialogue_id]
                if reply.error is not None:
                    is_valid = self._logits(prompt).isfinite().all()
                    return Difference(error=reply.error) if is_valid else Difference(math.nan)
                row, logits = recorded[request.dialogue_id]
                # Of equal logits, any can be chosen. A guide raises an error for a token that it does not allow.
                chosen = zip(logits, row.written, strict=True)
                if not request.schema and any(own[token] < own.max() for own, token in chosen):
                    return Difference(error="a token of a greedy reply is not the most likely one")
                # Without reuse, the library decodes with a cache of its own.
                count = len(logits) if self.loaded.inputs.family.reuse == "keys" else 1
                plain = self._logits(prompt, row.written[: count - 1])
                differences.append(self._row_differences(torch.stack(logits[:count]), plain))
                first_rows.append(plain[:1])
            if not self._is_exact:
                batches = [[p] for p in prompts] if self.loaded.inputs.family.alone else [prompts]
                with _alternative_attention(self.loaded.model):
                    others = torch.cat([plain_logits(self.loaded, batch) for batch in batches])
                spreads.append(self._row_differences(others, torch.cat(first_rows)))
            requests = [
                self._next_request(number, request, replies[request.dialogue_id])
                for number, request in enumerate(requests)
            ]
        difference = float(torch.cat(differences).max())
        if self._is_exact:
            return Difference(difference, MAX_EXACT_DIFFERENCE)
        min_spread = MIN_SPREAD.get(self.loaded.model.dtype, MIN_SPREAD[torch.bfloat16])
        spread = max(float(torch.cat(spreads).median()), min_spread)
        return Difference(difference, TOLERANCE_FACTOR * spread)

    def _is_fast(self, prompt: PreparedPrompt, seconds: float) -> bool:
        """True if the whole comparison takes less than MAX_SECONDS, given the time of the first forward pass."""
        if FULL_COST * seconds > MAX_SECONDS > 3 * seconds:  # perhaps because that pass warms up
            began = time.perf_counter()
            plain_logits(self.loaded, [prompt])
            seconds = time.perf_counter() - began
        return FULL_COST * seconds <= MAX_SECONDS

    @property
    def _is_exact(self) -> bool:
        return bool(self.loaded.model.dtype == torch.float32)

    def _logits(self, prompt: PreparedPrompt, written: Sequence[int] = ()) -> torch.Tensor:
        """Return the same as `plain_logits`, computed once."""
        key = prompt.ids, prompt.images, tuple(written)
        if key not in self._plain:
            self._plain[key] = plain_logits(self.loaded, [prompt], written)
        return self._plain[key]

    def _row_differences(self, logits: torch.Tensor, plain: torch.Tensor) -> torch.Tensor:
        """Return the difference of each row relative to the range of `plain`, (rows,).

        It is the largest difference in float32, otherwise the root mean square, which is less sensitive to rounding. NaN only
        if `plain` is not finite.
        """
        allowed = torch.ones(plain.shape[-1], dtype=torch.bool, device=plain.device)
        allowed[list(self.loaded.suppressed)] = False
        plain, logits = plain[:, allowed], logits.to(plain.device)[:, allowed]
        logits = logits.nan_to_num(torch.inf, torch.inf, -torch.inf)
        differences = (logits - plain) / (plain.amax(-1) - plain.amin(-1))[:, None]
        if self._is_exact:
            return differences.abs().amax(-1)
        return differences.square().mean(-1).sqrt()

    def _next_request(self, number: int, request: Request, reply: Reply) -> Request:
        """Return the second turn of a dialogue; the long one then needs a second page."""
        images = [chat.image_piece(file) for file in IMAGES[number][1]]
        question = chat.message("user", chat.text("Left or right?"), *images)
        messages = [*request.messages, chat.assistant(reply.text), question]
        schema = SCHEMA if self.loaded.guides is not None else None
        request = replace(request, turn=1, messages=messages, schema=schema)
        return misalign(self.loaded, request, min_tokens=0 if number else PAGE_TOKENS)


def first_request(number: int, text: str, *files: str) -> Request:
    """Return the first turn of a dialogue with images."""
    images = [chat.image_piece(file) for file in files]
    question = chat.message("user", chat.text(text * len(images)), *images)
    messages = [chat.message("system", chat.text(INSTRUCTIONS)), question]
    limit = REPLY_TOKENS[min(number, 1)]
    return Request(f"start check {number}", 0, messages, probe_image, max_new_tokens=limit)


def misalign(loaded: LoadedModel, request: Request, min_tokens: int = 0) -> Request:
    """Lengthen a request so that its prompt has one or two tokens more than a multiple of `ALIGNED_TOKENS`.

    Some GPU kernels were wrong for such lengths (PyTorch's memory-efficient attention before August 2026).
    """
    *earlier, last = request.messages
    longer, words = request, 0
    for _ in range(2 * ALIGNED_TOKENS):
        tokens = len(loaded.inputs.prepare(longer).ids)
        if tokens >= min_tokens and tokens % ALIGNED_TOKENS in (1, 2):
            break
        words += max(1, (min_tokens - tokens) // 2)
        message = {**last, "content": [*last["content"], chat.text(" so" * words)]}
        longer = replace(request, messages=[*earlier, message])
    return longer


def probe_image(file: str) -> Image.Image:
    """Return a test image with gradients, in the size that belongs to its name."""
    slope = Image.linear_gradient("L").rotate(90 * [*SIZES].index(file))
    bands = [slope, slope.rotate(90), slope.rotate(180)]
    return Image.merge("RGB", bands).resize(SIZES[file])


def plain_logits(
    loaded: LoadedModel, prompts: Sequence[PreparedPrompt], written: Sequence[int] = ()
) -> torch.Tensor:
    """Return the logits after each prompt, and after each of the tokens that follow it, computed without our cache.

    They are (prompts × (written tokens + 1), vocabulary) float32. Raises ValueError if the processor tokenizes a prompt
    differently, and any error of the model.
    """
    tensors = loaded.inputs.process(prompts)
    ids = tensors["input_ids"].tolist()
    if any(tuple(row[-len(p.ids) :]) != p.ids for row, p in zip(ids, prompts, strict=True)):
        raise ValueError("the processor tokenizes a prompt differently")
    return loaded.logits(tensors, written).flatten(0, 1)


@contextmanager
def _alternative_attention(model: Any) -> Iterator[None]:
    """Use another attention implementation of the library, which is equally exact but rounds differently."""
    config = model.config.get_text_config()
    original = config._attn_implementation
    config._attn_implementation = "sdpa" if original == "eager" else "eager"
    try:
        yield
    finally:
        config._attn_implementation = original


# Minimum tokens of the prompts: the first one takes more than a block, but shares its call with the second one.
COMPOSED_TOKENS = (280, 60, 900)


def check_composition(engine: ContinuousEngine) -> str | None:
    """Return an error message if a dialogue has other logits alone than with two others; otherwise None."""
    requests = [
        misalign(engine.loaded, first_request(number, TEXTS[number], file), tokens)
        for number, (file, tokens) in enumerate(zip(SIZES, COMPOSED_TOKENS, strict=False))
    ]
    ids = [request.dialogue_id for request in requests]
    try:
        with record_logits(engine) as alone:
            replies = [*answer(engine, requests[:1]).values()]
        engine.forget(ids)
        with record_logits(engine) as together:
            replies += answer(engine, requests[::-1]).values()
    finally:
        engine.forget(ids)
    if errors := [reply.error for reply in replies if reply.error is not None]:
        return errors[0]
    first, second = alone[ids[0]][1], together[ids[0]][1]
    if len(first) == len(second) and all(a.equal(b) for a, b in zip(first, second, strict=True)):
        return None
    return "logits of a dialogue change when other dialogues share its calls"


def answer(engine: LocalEngine, requests: Sequence[Request]) -> dict[str, Reply]:
    """Answer requests whose prompts are ready at the same time; return the replies by dialogue."""
    engine.submit(requests)
    if isinstance(engine, ContinuousEngine):
        engine.await_prompts()
    replies: dict[str, Reply] = {}
    while len(replies) < len(requests):
        replies |= {request.dialogue_id: reply for request, reply in engine.ready()}
    return replies


@contextmanager
def record_logits(engine: LocalEngine) -> Iterator[Recorded]:
    """Record the logits of every new token."""
    recorded: Recorded = {}

    def record(logits: torch.Tensor, rows: Sequence[PartialReply]) -> None:
        for row, own in zip(rows, logits, strict=True):
            if row.dialogue_id not in recorded or recorded[row.dialogue_id][0] is not row:
                recorded[row.dialogue_id] = row, []  # instead of a call that measures memory
            recorded[row.dialogue_id][1].append(own.clone())

    owner = engine.scheduler if isinstance(engine, ContinuousEngine) else engine
    before, owner.on_logits = owner.on_logits, record
    try:
        yield recorded
    finally:
        owner.on_logits = before
