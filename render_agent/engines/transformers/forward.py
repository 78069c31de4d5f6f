"""One call of the model by hand: new tokens behind rows of earlier ones, or one token more a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from render_agent.engines.transformers.attention import one_token_a_row
from render_agent.engines.transformers.kv_cache import (
    DecodeCache,
    LayerRows,
    PrefillCache,
    RowSlots,
)
from render_agent.engines.transformers.loaded_model import LoadedModel
from render_agent.engines.transformers.tokenization import PreparedPrompt


@dataclass(frozen=True, slots=True)
class Unread:
    """A prompt of which a row holds the first `start` tokens: the rest is to be read.

    positions: of all its tokens, (axes, tokens): three axes where the model's positions have time,
    height and width, else one. values: the pixel values of the pictures that are to be read.
    """

    prompt: PreparedPrompt
    row: int
    start: int
    positions: torch.Tensor
    values: Sequence[torch.Tensor] = ()

    @property
    def tokens(self) -> int:
        """How many tokens are to be read."""
        return len(self.ids) - self.start

    @property
    def ids(self) -> tuple[int, ...]:
        """All tokens of the prompt."""
        assert self.prompt.ids is not None
        return self.prompt.ids

    @property
    def offset(self) -> int:
        """What to add to a place behind the prompt to get its position."""
        return int(self.positions.max()) + 1 - len(self.ids)


def unread(
    loaded: LoadedModel,
    prompt: PreparedPrompt,
    row: int = 0,
    start: int = 0,
    values: Sequence[torch.Tensor] | None = None,
) -> Unread:
    """Return a prompt of which a row holds the first `start` tokens, ready to be read.

    values: the pixel values of its pictures from there on, where they are at hand.
    """
    inputs = loaded.inputs
    places = positions(loaded.model, prompt, inputs.token_types(prompt), inputs.family.axes)
    if values is None:
        values = [picture.values() for picture in prompt.shown if picture.start >= start]
    return Unread(prompt, row, start, places, values)


def positions(model: Any, prompt: PreparedPrompt, types: Sequence[int], axes: int) -> torch.Tensor:
    """Return the positions of a prompt's tokens, (axes, tokens), as the model itself would count them.

    types: 1 where a token stands for a picture.
    """
    assert prompt.ids is not None
    count = len(prompt.ids)
    if axes == 1:
        return torch.arange(count)[None]
    grids = [picture.grid for picture in prompt.shown]
    found, _ = model.model.get_rope_index(
        torch.tensor([prompt.ids]),
        mm_token_type_ids=torch.tensor([list(types)]),
        image_grid_thw=torch.tensor(grids) if grids else None,
        attention_mask=torch.ones(1, count, dtype=torch.long),
    )
    return torch.as_tensor(found[:, 0])


def read(
    model: Any, slots: RowSlots, group: Sequence[Unread], pad: int
) -> tuple[torch.Tensor, list[LayerRows]]:
    """Read the unread tokens of some prompts in one call of the model.

    Returns the logits after the last token of each, (rows, vocabulary) float32, and the keys and
    values of the new tokens, (rows, heads, tokens, width) a layer, padded on the left. The slots are
    not changed. Raises whatever the model causes.
    """
    device = model.device
    starts = [entry.start for entry in group]
    newest = max(entry.tokens for entry in group)
    before = max(starts)
    past = slots.gathered([entry.row for entry in group], before, newest) if before else []
    ids = torch.full((len(group), newest), pad)
    places = torch.zeros(group[0].positions.shape[0], len(group), newest, dtype=torch.long)
    mask = torch.zeros(len(group), newest, before + newest, dtype=torch.bool)
    causal = torch.ones(newest, newest, dtype=torch.bool).tril()
    for row, entry in enumerate(group):
        padding = newest - entry.tokens
        ids[row, padding:] = torch.tensor(entry.ids[entry.start :])
        places[:, row, padding:] = entry.positions[:, entry.start :]
        mask[row, :, : entry.start] = True
        mask[row, :, before:] = causal
        mask[row, padding:, before : before + padding] = False
    cache = PrefillCache(past, before)
    output = model(
        input_ids=ids.to(device),
        attention_mask=_attention_mask(model, mask[:, None]),
        position_ids=as_taken(places).to(device),
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
        **_pictures(model, group),
    )
    return output.logits[:, -1].float(), cache.written


def write(
    model: Any, slots: RowSlots, last: Sequence[int], places: Sequence[int], axes: int
) -> torch.Tensor:
    """Put one token behind each of the first rows, at these positions; return the logits after it.

    Its keys and values are written into the rows, whose lengths the caller counts up. (rows,
    vocabulary) float32. Raises whatever the model causes; the call can be made again.
    """
    device, count = model.device, len(last)
    lengths = torch.tensor(slots.lengths[:count])
    mask = torch.arange(int(lengths.max()) + 1) <= lengths[:, None]
    masked = _attention_mask(model, mask[:, None, None])
    with one_token_a_row(model):
        output = model(
            input_ids=torch.tensor(last, device=device)[:, None],
            attention_mask=masked,
            position_ids=as_taken(torch.tensor(places)[None, :, None].expand(axes, -1, -1)).to(
                device
            ),
            past_key_values=DecodeCache(slots, count),
            use_cache=True,
            logits_to_keep=1,
        )
    logits: torch.Tensor = output.logits[:, -1].float()
    return logits


def as_taken(places: torch.Tensor) -> torch.Tensor:
    """Return positions (axes, rows, tokens) as a model takes them: without the axis where it is one."""
    return places[0] if places.shape[0] == 1 else places


def _attention_mask(model: Any, mask: torch.Tensor) -> torch.Tensor:
    """Return a mask of four dimensions as the model's attention takes it: the library hands it on as it is."""
    moved = mask.to(model.device)
    if model.config._attn_implementation == "sdpa":
        return moved
    lowest = torch.finfo(model.dtype).min
    return torch.zeros(mask.shape, dtype=model.dtype, device=moved.device).masked_fill(
        ~moved, lowest
    )


def _pictures(model: Any, group: Sequence[Unread]) -> dict[str, torch.Tensor]:
    """Return the pictures among the unread tokens, rows one after the other."""
    shown = [
        picture for entry in group for picture in entry.prompt.shown if picture.start >= entry.start
    ]
    if not shown:
        return {}
    values = torch.cat([tensor for entry in group for tensor in entry.values])
    pictures = {"pixel_values": values.to(device=model.device, dtype=model.dtype)}
    if shown[0].grid is not None:
        grids = [picture.grid for picture in shown]
        pictures["image_grid_thw"] = torch.tensor(grids, device=model.device)
    return pictures
