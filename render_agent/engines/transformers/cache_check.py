"""Checks on the device that neither the KV cache nor what shares a call changes the model's scores.

`check_cache` is for `doctor --probe`, `check_composition` precedes a run with `--reproducible on`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Reply, Request
from render_agent.engines.families.images import TEXT_OUTPUTS
from render_agent.engines.memory.faults import Fault, attempt_with_retries
from render_agent.engines.transformers import prefill
from render_agent.engines.transformers.decode import Decoder
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.sequences import InFlightRequest, Sample

if TYPE_CHECKING:
    from render_agent.engines.transformers.transformers_engine import ContinuousEngine

# Largest difference between scores in float32, relative to their range: rounding is far below, a wrong position above.
MAX_EXACT_DIFFERENCE = 1e-3

# In half precision, the difference may be this many times the difference between two exact implementations of attention.
# The root mean square is compared: two real errors (mixed and decayed recurrent states) increased it several times, but
# not the largest difference.
TOLERANCE_FACTOR = 3.0
# Lower bound of the difference between implementations, in units of the dtype's epsilon.
MIN_SPREAD_EPS = 1 / 16

# Several trials, because in half precision a router of experts can choose other experts in one of them.
TEXTS = ("What do you see? ", "Where would you go now? ", "Is it far to the door? ")

ALIGNED_TOKENS = 32

SIZES = {"narrow.png": (96, 128), "wide.png": (160, 96), "small.png": (64, 64)}


def check_cache(loaded: LoadedModel) -> str | None:
    """Return an error message if the KV cache changes this model's scores; otherwise None.

    Two dialogues of different lengths with images are prefilled together, then their second turns with the cache, then
    one token is decoded. The scores must agree with those of computing each prompt alone and without a cache, within the
    tolerance.
    """
    if loaded.inputs.form is None:
        return "its processor has to see the whole prompt to preprocess an image"
    difference = tolerance = 0.0
    for text in TEXTS:
        try:
            result = attempt_with_retries(
                partial(score_difference, loaded, text), loaded.model.device
            )
        finally:
            loaded.inputs.retire("probe")
        # The library's classes differ by family and version; one that does not support our attention can raise anything.
        if isinstance(result, Fault):
            return f"the model does not support our attention ({result.reason})"
        difference, tolerance = result
        if math.isnan(difference):
            return loaded.invalid_scores()
        if difference <= tolerance:
            return None
    return (
        f"with the KV cache, scores differ by {difference:.2g} of their range, more than the"
        f" {tolerance:.2g} that rounding explains"
    )


def score_difference(loaded: LoadedModel, text: str = TEXTS[0]) -> tuple[float, float]:
    """Return the largest difference of any row between scores with and without the cache, and the tolerance.

    Both are relative to the range of the scores.
    """
    files = ("narrow.png", "wide.png"), ("small.png",)
    dialogues: list[list[chat.Message]] = [[], []]
    family = loaded.inputs.family
    is_exact = loaded.model.dtype == torch.float32
    cache = prefill.new_cache(loaded)
    differences: list[torch.Tensor] = []
    spreads: list[torch.Tensor] = []
    prompts: list[PreparedPrompt] = []
    for turn in range(2):
        dialogues = [
            _next_turn(loaded, history, text, *own)
            for history, own in zip(dialogues, files, strict=True)
        ]
        prompts = [
            loaded.inputs.prepare(Request("probe", 0, messages, probe_image))
            for messages in dialogues
        ]
        if not turn:
            sequences = [cache.add(str(n), prompt) for n, prompt in enumerate(prompts)]
        entries = []
        for sequence, prompt in zip(sequences, prompts, strict=True):
            sequence.pinned, start = True, sequence.cached_tokens(prompt)
            cache.reserve(sequence, start, len(prompt.ids) + 1)
            tensors = [image.values() for image in prompt.images if image.start >= start]
            entries.append(prefill.UnreadPrompt(prompt, sequence, start, tensors))
        scores = prefill.prefill(loaded.model, cache, entries, family)
        for sequence, prompt in zip(sequences, prompts, strict=True):
            sequence.mark_read(prompt)
        uncached = torch.cat([uncached_scores(loaded, [prompt]) for prompt in prompts])
        differences.append(row_differences(scores, uncached, is_exact))
        if not is_exact:
            with _alternative_attention(loaded.model):
                alternative = uncached_scores(loaded, prompts)
            spreads.append(row_differences(alternative, uncached, is_exact))
    token = int(uncached[0].argmax())
    rows = []
    for sequence, prompt in zip(sequences, prompts, strict=True):
        offset = prefill.next_position(prompt, family.axes) - len(sequence.ids)
        rows.append(Sample(_NO_REQUEST, 0, sequence, offset=offset, written=[token]))
    scores = Decoder(loaded.model, cache, family.axes, ()).step(rows)[0]
    with_token = torch.cat([uncached_scores(loaded, [prompt], token) for prompt in prompts])
    differences.append(row_differences(scores, with_token, is_exact))
    difference = float(torch.cat(differences).max())
    if is_exact:
        return difference, MAX_EXACT_DIFFERENCE
    min_spread = MIN_SPREAD_EPS * torch.finfo(loaded.model.dtype).eps
    return difference, TOLERANCE_FACTOR * max(float(torch.cat(spreads).median()), min_spread)


# Decoding a trial token needs no request.
_NO_REQUEST: Any = InFlightRequest.__new__(InFlightRequest)


def _next_turn(
    loaded: LoadedModel, history: Sequence[chat.Message], text: str, *files: str
) -> list[chat.Message]:
    """Return the messages of a dialogue after a further turn with these images."""
    images = [chat.image_piece(file) for file in files]
    opening = [chat.message("system", chat.text("Look around."))]
    answered = [*history, chat.assistant('{"rotation_angle_degrees": 45}')] if history else opening
    question = chat.text("And now?" if history else text * len(files))
    messages = [*answered, chat.message("user", question, *images)]
    return list(misalign(loaded, Request("probe", 0, messages, probe_image)).messages)


def misalign(loaded: LoadedModel, request: Request) -> Request:
    """Lengthen a request so that its prompt has one token more than a multiple of `ALIGNED_TOKENS`.

    Some GPU kernels were wrong for such lengths (PyTorch's memory-efficient attention before August 2026).
    """
    *earlier, last = request.messages
    longer = request
    for count in range(2 * ALIGNED_TOKENS):
        more = [chat.text(" so" * count)] if count else []
        message = {**last, "content": [*last["content"], *more]}
        longer = replace(request, messages=[*earlier, message])
        if len(loaded.inputs.prepare(longer).ids) % ALIGNED_TOKENS == 1:
            break
    return longer


def probe_image(file: str) -> Image.Image:
    """Return a test image with gradients, in the size that belongs to its name."""
    slope = Image.linear_gradient("L")
    bands = [slope, slope.rotate(90), slope.rotate(180)]
    return Image.merge("RGB", bands).resize(SIZES[file])


def uncached_scores(
    loaded: LoadedModel, prompts: Sequence[PreparedPrompt], token: int | None = None
) -> torch.Tensor:
    """Return the scores after prompts, followed by `token` if given, computed by the library without our cache.

    Raises ValueError if the processor tokenizes a prompt differently.
    """
    tensors = loaded.inputs.process(prompts)
    ids = tensors["input_ids"].tolist()
    if any(tuple(row[-len(p.ids) :]) != p.ids for row, p in zip(ids, prompts, strict=True)):
        raise ValueError("the processor tokenizes a prompt differently")
    if token is not None:
        # All other inputs, such as token types, are 0 for a text token.
        inputs = {"input_ids": token, "attention_mask": 1}
        for name in TEXT_OUTPUTS & tensors.keys():
            more = torch.full((len(prompts), 1), inputs.get(name, 0))
            tensors[name] = torch.cat([tensors[name], more.to(tensors[name])], dim=1)
    tensors = tensors.to(device=loaded.model.device, dtype=loaded.model.dtype)
    with torch.inference_mode():
        scores: torch.Tensor = loaded.model(**tensors, logits_to_keep=1).logits[:, -1].float()
    return scores


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


def row_differences(scores: torch.Tensor, uncached: torch.Tensor, exact: bool) -> torch.Tensor:
    """Return the difference of scores, (rows, vocabulary), relative to the range of the second ones, (rows,).

    It is the largest difference if `exact`, otherwise the root mean square, which is less sensitive to rounding; NaN only if
    the second ones are not numbers.
    """
    scores = scores.nan_to_num(torch.inf, torch.inf, -torch.inf)
    differences = (scores - uncached) / (uncached.amax(-1) - uncached.amin(-1))[:, None]
    return differences.abs().amax(-1) if exact else differences.square().mean(-1).sqrt()


# Tokens of the prompts: the first one takes more than a block, but shares its call with the second one.
COMPOSED_TOKENS = (280, 60, 900)
NEW_TOKENS = 8


def check_composition(engine: ContinuousEngine) -> str | None:
    """Return an error message if a dialogue has other logits alone than with two others; otherwise None."""
    requests = [_composed_request(engine, number) for number in range(len(COMPOSED_TOKENS))]
    try:
        with _recorded_logits(engine) as alone:
            errors = _answer_together(engine, requests[:1])
        _forget(engine)
        with _recorded_logits(engine) as together:
            errors += _answer_together(engine, requests[::-1])
    finally:
        _forget(engine)
    if errors:
        return errors[0]
    pairs = list(zip(alone["probe 0"], together["probe 0"], strict=False))
    if len(alone["probe 0"]) == len(together["probe 0"]) and all(a.equal(b) for a, b in pairs):
        return None
    return "logits of a dialogue change when other dialogues share its calls"


def _answer_together(engine: ContinuousEngine, requests: Sequence[Request]) -> list[str]:
    """Answer requests whose prompts are ready at the same time; return the errors."""
    engine.submit(requests)
    engine.await_prompts()
    replies: list[Reply] = []
    while len(replies) < len(requests):
        replies += [reply for _, reply in engine.ready()]
    return [reply.error for reply in replies if reply.error is not None]


@contextmanager
def _recorded_logits(engine: ContinuousEngine) -> Iterator[dict[str, list[torch.Tensor]]]:
    """Record the logits of every new token by dialogue."""
    logits: dict[str, list[torch.Tensor]] = {}

    def record(rows_of_logits: torch.Tensor, rows: Sequence[Sample]) -> None:
        for row, own in zip(rows, rows_of_logits, strict=True):
            logits.setdefault(row.request.dialogue_id, []).append(own.cpu())

    before, engine.scheduler.on_logits = engine.scheduler.on_logits, record
    try:
        yield logits
    finally:
        engine.scheduler.on_logits = before


def _composed_request(engine: ContinuousEngine, number: int) -> Request:
    sentence = f"{number} places have been seen, and this is the next one. "
    words = sentence * -(
        -COMPOSED_TOKENS[number] // len(engine.loaded.tokenizer(sentence)["input_ids"])
    )
    image = chat.image_piece([*SIZES][number])
    messages = [chat.message("user", chat.text(words), image, chat.text("What now?"))]
    return Request(f"probe {number}", 0, messages, probe_image, max_new_tokens=NEW_TOKENS)


def _forget(engine: ContinuousEngine) -> None:
    """Remove all traces of the check."""
    for number in range(len(COMPOSED_TOKENS)):
        engine.retire(f"probe {number}")
    engine.cache.drop_prefix()
    engine.forget_lengths()
