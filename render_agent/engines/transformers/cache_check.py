"""Whether what is kept over the turns changes nothing: a few prompts read both ways before a run begins."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.base import Request
from render_agent.engines.transformers.forward import read, unread, write
from render_agent.engines.transformers.kv_cache import RowSlots
from render_agent.engines.transformers.loaded_model import LoadedModel
from render_agent.engines.transformers.tokenization import PreparedPrompt

TOLERANCE = {torch.float32: 1e-3}
COARSE = 0.03
"""By how much of their own range scores may differ: rounding stays far below, a wrong position does not."""

ATTENTION = ("sdpa", "eager")
"""Ways of attention that take a mask of one's own."""

SIZES = {"narrow.png": (96, 128), "wide.png": (160, 96), "small.png": (64, 64)}


def why_not_kept(loaded: LoadedModel) -> str | None:
    """Return in one sentence why keys and values cannot be kept with this model; None where they can.

    Two dialogues of unlike length, with pictures, are read together, then their second turns behind
    what was kept, then one token is written: the scores must be those of reading each anew, alone.
    """
    attention = loaded.model.config._attn_implementation
    if attention not in ATTENTION:
        return f"{attention} attention takes no mask of one's own"
    try:
        worst = _difference(loaded)
    # The library's classes differ by family and version: one that takes no rows of our own may
    # raise anything, and is then run without them.
    except (TypeError, ValueError, AttributeError, RuntimeError, IndexError, KeyError) as error:
        return f"the model takes no rows of our own ({type(error).__name__}: {error})"
    finally:
        loaded.inputs.retire("probe")
    if worst <= TOLERANCE.get(loaded.model.dtype, COARSE):
        return None
    return f"scores differ by {worst:.2g} of their range from those of reading everything anew"


def _difference(loaded: LoadedModel) -> float:
    """Return by how much of their range the scores differ at the most."""
    first, second = _dialogues("narrow.png", "wide.png"), _dialogues("small.png")
    slots = RowSlots()
    worst = 0.0
    with torch.inference_mode():
        for turn in range(2):
            prompts = [_prompt(loaded, dialogue[turn]) for dialogue in (first, second)]
            starts = slots.lengths or [0, 0]
            entries = [
                unread(loaded, prompt, row, starts[row]) for row, prompt in enumerate(prompts)
            ]
            scores, written = read(loaded.model, slots, entries, loaded.pad)
            if not slots.layers:
                slots.learn(written)
            slots.reserve(2, max(len(entry.ids) for entry in entries) + 1)
            for place, entry in enumerate(entries):
                slots.lengths[place] = len(entry.ids)
                slots.put(place, entry.start, written, place)
            anew = torch.cat([_anew(loaded, prompt) for prompt in prompts])
            worst = max(worst, _apart(scores, anew))
        token = int(anew[0].argmax())
        places = [len(entry.ids) + entry.offset for entry in entries]
        scores = write(loaded.model, slots, [token] * 2, places, loaded.inputs.family.axes)
        longer = [dataclasses.replace(p, ids=(*(p.ids or ()), token)) for p in prompts]
        return max(worst, _apart(scores, torch.cat([_anew(loaded, prompt) for prompt in longer])))


def _dialogues(*files: str) -> list[list[chat.Message]]:
    """Return the messages of two turns, each of which shows these pictures."""
    shown = [chat.picture(file) for file in files]
    first = [
        chat.message("system", chat.text("Look around.")),
        chat.message("user", chat.text("What do you see? " * len(files)), *shown),
    ]
    answered = chat.assistant('{"rotation_angle_degrees": 45}')
    return [first, [*first, answered, chat.message("user", chat.text("And now?"), *shown)]]


def _prompt(loaded: LoadedModel, messages: Sequence[chat.Message]) -> PreparedPrompt:
    return loaded.inputs.prepare(Request("probe", 0, messages, _picture))


def _picture(file: str) -> Image.Image:
    """Return a picture without an even place, of the size that its name stands for."""
    slope = Image.linear_gradient("L")
    bands = [slope, slope.rotate(90), slope.rotate(180)]
    return Image.merge("RGB", bands).resize(SIZES[file])


def _anew(loaded: LoadedModel, prompt: PreparedPrompt) -> Any:
    """Return the scores behind a prompt that is read alone, as the library reads it."""
    tensors = loaded.inputs.encode([prompt], str(loaded.model.device))
    tensors = tensors.to(device=loaded.model.device, dtype=loaded.model.dtype)
    return loaded.model(**tensors, logits_to_keep=1).logits[:, -1].float()


def _apart(scores: torch.Tensor, anew: torch.Tensor) -> float:
    """Return the greatest difference of two sets of scores, as a part of the second's range."""
    range_ = anew.max() - anew.min()
    return float((scores - anew).abs().max() / range_)
