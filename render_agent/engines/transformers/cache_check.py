"""Whether what is kept over the turns changes nothing: a few prompts read both ways before a run begins."""

from __future__ import annotations

from collections.abc import Sequence as Several
from functools import partial
from typing import Any

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.base import Request
from render_agent.engines.transformers import prefill
from render_agent.engines.transformers.decode import Decoder
from render_agent.engines.transformers.families.inputs import PreparedPrompt
from render_agent.engines.transformers.families.pictures import OF_TEXT
from render_agent.engines.transformers.memory.faults import Fault, attempt_patiently
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.sequences import Asked, Sample

TOLERANCE = {torch.float32: 1e-3}
COARSE_TOLERANCE = 0.03
"""By how much of their own range scores may differ: rounding stays far below, a wrong position does not."""

SIZES = {"narrow.png": (96, 128), "wide.png": (160, 96), "small.png": (64, 64)}


def why_not_kept(loaded: LoadedModel) -> str | None:
    """Return in one sentence why keys and values cannot be kept with this model; None where they can.

    Two dialogues of unlike length, with pictures, are read together, then their second turns behind
    what was kept, then one token is written: the scores must be those of reading each anew, alone.
    """
    try:
        worst = attempt_patiently(partial(_difference, loaded), loaded.model.device)
    finally:
        loaded.inputs.retire("probe")
    # The library's classes differ by family and version: one that does not take our attention may
    # raise anything, and is then run without it.
    if isinstance(worst, Fault):
        return f"the model does not take our attention ({worst.reason})"
    if worst <= TOLERANCE.get(loaded.model.dtype, COARSE_TOLERANCE):
        return None
    return f"scores differ by {worst:.2g} of their range from those of reading everything anew"


def _difference(loaded: LoadedModel) -> float:
    """Return by how much of their range the scores differ at the most."""
    dialogues = _dialogues("narrow.png", "wide.png"), _dialogues("small.png")
    axes = loaded.inputs.family.axes
    cache = prefill.new_cache(loaded)
    worst = 0.0
    prompts: list[PreparedPrompt] = []
    for turn in range(2):
        prompts = [_prompt(loaded, dialogue[turn]) for dialogue in dialogues]
        if not turn:
            sequences = [cache.begin(str(n), prompt) for n, prompt in enumerate(prompts)]
        entries = []
        for sequence, prompt in zip(sequences, prompts, strict=True):
            sequence.pinned, start = True, sequence.known(prompt)
            assert prompt.ids is not None
            cache.reserve(sequence, start, len(prompt.ids) + 1)
            values = [picture.values() for picture in prompt.shown if picture.start >= start]
            entries.append(prefill.Unread(prompt, sequence, start, values))
        scores = prefill.read(loaded.model, cache, entries, loaded.inputs.family)
        for sequence, prompt in zip(sequences, prompts, strict=True):
            sequence.has_read(prompt)
        anew = torch.cat([_anew(loaded, prompt) for prompt in prompts])
        worst = max(worst, _apart(scores, anew))
    token = int(anew[0].argmax())
    rows = []
    for sequence, prompt in zip(sequences, prompts, strict=True):
        offset = prefill.next_position(prompt, axes) - len(sequence.ids)
        rows.append(Sample(_NOTHING, 0, sequence, offset=offset, written=[token]))
    scores = Decoder(loaded.model, cache, axes, ()).step(rows)[1]
    longer = torch.cat([_anew(loaded, prompt, token) for prompt in prompts])
    return max(worst, _apart(scores, longer))


_NOTHING: Any = Asked.__new__(Asked)
"""No request stands behind a token that is written as a trial."""


def _dialogues(*files: str) -> list[list[chat.Message]]:
    """Return the messages of two turns, each of which shows these pictures."""
    shown = [chat.picture(file) for file in files]
    first = [
        chat.message("system", chat.text("Look around.")),
        chat.message("user", chat.text("What do you see? " * len(files)), *shown),
    ]
    answered = chat.assistant('{"rotation_angle_degrees": 45}')
    return [first, [*first, answered, chat.message("user", chat.text("And now?"), *shown)]]


def _prompt(loaded: LoadedModel, messages: Several[chat.Message]) -> PreparedPrompt:
    return loaded.inputs.prepare(Request("probe", 0, messages, _picture))


def _picture(file: str) -> Image.Image:
    """Return a picture without an even place, of the size that its name stands for."""
    slope = Image.linear_gradient("L")
    bands = [slope, slope.rotate(90), slope.rotate(180)]
    return Image.merge("RGB", bands).resize(SIZES[file])


def _anew(loaded: LoadedModel, prompt: PreparedPrompt, token: int | None = None) -> torch.Tensor:
    """Return the scores behind a prompt, and a token, that are read alone, as the library reads them."""
    tensors = loaded.inputs.encode([prompt], str(loaded.model.device))
    if token is not None:
        # What a text's token is told beside its number: it is looked at, and is no part of a picture.
        told = {"input_ids": token, "attention_mask": 1}
        for name in OF_TEXT & tensors.keys():
            more = torch.full((1, 1), told.get(name, 0))
            tensors[name] = torch.cat([tensors[name], more.to(tensors[name])], dim=1)
    tensors = tensors.to(device=loaded.model.device, dtype=loaded.model.dtype)
    with torch.inference_mode():
        scores: torch.Tensor = loaded.model(**tensors, logits_to_keep=1).logits[:, -1].float()
    return scores


def _apart(scores: torch.Tensor, anew: torch.Tensor) -> float:
    """Return the greatest difference of two sets of scores, as a part of the second's range."""
    range_ = anew.max() - anew.min()
    return float((scores - anew).abs().max() / range_)
