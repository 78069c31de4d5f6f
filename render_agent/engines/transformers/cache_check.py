"""The check of the KV cache by `doctor --probe`: prompts read with kept keys and values score as those read anew."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Sequence as Several
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.families.pictures import OF_TEXT
from render_agent.engines.memory.faults import Fault, attempt_patiently
from render_agent.engines.transformers import prefill
from render_agent.engines.transformers.decode import Decoder
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.sequences import InFlightRequest, Sample

EXACT = 1e-3
"""By how much of their range scores in float32 may differ anywhere: rounding stays far below, a wrong place does not."""

SPREADS = 3.0
"""In half precision: how many times further from each other than two exact ways of reading anew.

Scores then differ by their root mean square, which two real errors, of states that were mixed and of states that
faded, moved several times as far as rounding does; their greatest difference moved no further.
"""

LEAST_SPREAD = 1 / 16
"""The least that two ways of reading are taken to differ by, in steps of the number's precision at one."""

WORDS = ("What do you see? ", "Where would you go now? ", "Is it far to the door? ")
"""What is said in the trials: in half precision a router of experts may choose others in one of them by chance."""

ALIGNED_TOKENS = 32

SIZES = {"narrow.png": (96, 128), "wide.png": (160, 96), "small.png": (64, 64)}


def cache_mismatch(loaded: LoadedModel) -> str | None:
    """Return in one sentence why keys and values cannot be kept with this model; None where they can.

    Two dialogues of unlike length, with pictures, are read together, then their second turns behind
    what was kept, then one token is written: the scores must be those of reading each anew, alone, as far
    as two ways of reading anew agree themselves.
    """
    if loaded.inputs.form is None:
        return "only its processor knows what a picture becomes"
    difference = allowed = 0.0
    for words in WORDS:
        try:
            reason = attempt_patiently(
                partial(score_difference, loaded, words), loaded.model.device
            )
        finally:
            loaded.inputs.retire("probe")
        # The library's classes differ by family and version: one that does not take our attention may
        # raise anything, and is then run without it.
        if isinstance(reason, Fault):
            return f"the model does not take our attention ({reason.reason})"
        difference, allowed = reason
        if difference <= allowed:
            return None
    return (
        f"scores differ by {difference:.2g} of their range from those of reading everything anew, and"
        f" {allowed:.2g} could be rounding"
    )


def score_difference(loaded: LoadedModel, words: str = WORDS[0]) -> tuple[float, float]:
    """Return by how much scores from the cache differ from those of reading anew, as parts of their range, and the tolerance.

    That is at the most, in any row.
    """
    shown = ("narrow.png", "wide.png"), ("small.png",)
    dialogues: list[list[chat.Message]] = [[], []]
    family = loaded.inputs.family
    exact = loaded.model.dtype == torch.float32
    cache = prefill.new_cache(loaded)
    worst: list[torch.Tensor] = []
    spreads: list[torch.Tensor] = []
    prompts: list[PreparedPrompt] = []
    for turn in range(2):
        dialogues = [
            _next_turn(loaded, before, words, *files)
            for before, files in zip(dialogues, shown, strict=True)
        ]
        prompts = [
            loaded.inputs.prepare(Request("probe", 0, messages, _picture)) for messages in dialogues
        ]
        if not turn:
            sequences = [cache.begin(str(n), prompt) for n, prompt in enumerate(prompts)]
        entries = []
        for sequence, prompt in zip(sequences, prompts, strict=True):
            sequence.pinned, start = True, sequence.cached_tokens(prompt)
            cache.reserve(sequence, start, len(prompt.ids) + 1)
            values = [picture.values() for picture in prompt.shown if picture.start >= start]
            entries.append(prefill.Unread(prompt, sequence, start, values))
        scores = prefill.read(loaded.model, cache, entries, family)
        for sequence, prompt in zip(sequences, prompts, strict=True):
            sequence.mark_read(prompt)
        uncached = torch.cat([uncached_scores(loaded, [prompt]) for prompt in prompts])
        worst.append(row_differences(scores, uncached, exact))
        if not exact:
            with _other_attention(loaded.model):
                spreads.append(row_differences(uncached_scores(loaded, prompts), uncached, exact))
    token = int(uncached[0].argmax())
    rows = []
    for sequence, prompt in zip(sequences, prompts, strict=True):
        offset = prefill.next_position(prompt, family.axes) - len(sequence.ids)
        rows.append(Sample(_NOTHING, 0, sequence, offset=offset, written=[token]))
    scores = Decoder(loaded.model, cache, family.axes, ()).step(rows)[0]
    longer = torch.cat([uncached_scores(loaded, [prompt], token) for prompt in prompts])
    worst.append(row_differences(scores, longer, exact))
    difference = float(torch.cat(worst).max())
    if exact:
        return difference, EXACT
    least = LEAST_SPREAD * torch.finfo(loaded.model.dtype).eps
    return difference, SPREADS * max(float(torch.cat(spreads).median()), least)


_NOTHING: Any = InFlightRequest.__new__(InFlightRequest)
"""No request stands behind a token that is written as a trial."""


def _next_turn(
    loaded: LoadedModel, history: Several[chat.Message], words: str, *files: str
) -> list[chat.Message]:
    """Return the messages of a dialogue's next turn, which shows these pictures, behind its history."""
    shown = [chat.picture(file) for file in files]
    begun = [chat.message("system", chat.text("Look around."))]
    answered = [*history, chat.assistant('{"rotation_angle_degrees": 45}')] if history else begun
    asked = chat.text("And now?" if history else words * len(files))
    messages = [*answered, chat.message("user", asked, *shown)]
    return list(misaligned(loaded, Request("probe", 0, messages, _picture)).messages)


def misaligned(loaded: LoadedModel, request: Request) -> Request:
    """Return a request that says a little more, so that its prompt is a token longer than a multiple of `ALIGNED_TOKENS`.

    Some kernels of GPUs gave wrong numbers there (PyTorch's memory-efficient attention before August 2026).
    """
    *before, last = request.messages
    asked = request
    for words in range(2 * ALIGNED_TOKENS):
        more = [chat.text(" so" * words)] if words else []
        longer = {**last, "content": [*last["content"], *more]}
        asked = replace(request, messages=[*before, longer])
        if len(loaded.inputs.prepare(asked).ids) % ALIGNED_TOKENS == 1:
            break
    return asked


def _picture(file: str) -> Image.Image:
    """Return a test picture with a gradient everywhere, in the size of its name."""
    slope = Image.linear_gradient("L")
    bands = [slope, slope.rotate(90), slope.rotate(180)]
    return Image.merge("RGB", bands).resize(SIZES[file])


def uncached_scores(
    loaded: LoadedModel, prompts: Several[PreparedPrompt], token: int | None = None
) -> torch.Tensor:
    """Return the scores behind prompts, and a token, that are read together, as the library reads them.

    ValueError where its processor makes other tokens of one than we do.
    """
    tensors = loaded.inputs.processed(prompts)
    ids = tensors["input_ids"].tolist()
    if any(tuple(row[-len(p.ids) :]) != p.ids for row, p in zip(ids, prompts, strict=True)):
        raise ValueError("its processor makes other tokens of a prompt")
    if token is not None:
        # What a text's token is told beside its number: it is looked at, and is no part of a picture.
        inputs = {"input_ids": token, "attention_mask": 1}
        for name in OF_TEXT & tensors.keys():
            more = torch.full((len(prompts), 1), inputs.get(name, 0))
            tensors[name] = torch.cat([tensors[name], more.to(tensors[name])], dim=1)
    tensors = tensors.to(device=loaded.model.device, dtype=loaded.model.dtype)
    with torch.inference_mode():
        scores: torch.Tensor = loaded.model(**tensors, logits_to_keep=1).logits[:, -1].float()
    return scores


@contextmanager
def _other_attention(model: Any) -> Iterator[None]:
    """Let a model's text part attend by other code of the library within, which is as exact and rounds otherwise."""
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = "sdpa" if before == "eager" else "eager"
    try:
        yield
    finally:
        config._attn_implementation = before


def row_differences(scores: torch.Tensor, uncached: torch.Tensor, exact: bool) -> torch.Tensor:
    """Return by how much two sets of scores differ row by row, as a part of the second's range, (rows,).

    exact: by the greatest difference, otherwise by the root of their mean square, which rounding moves little.
    """
    differences = (scores - uncached) / (uncached.amax(-1) - uncached.amin(-1))[:, None]
    return differences.abs().amax(-1) if exact else differences.square().mean(-1).sqrt()
