"""How likely given answers are, read off a model of transformers: nothing is generated.

A choice is scored as the reply's beginning: its tokens, made of its text alone without a space
before it, stand right behind the generation prompt. What follows it is left open, so that "1" also
holds the likelihood of "10". Probabilities are the model's own: no temperature, no token left out.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch

from render_agent.dialogue.tokens import Tokens
from render_agent.engines.engine import Request, Scores
from render_agent.engines.memory.device import watched
from render_agent.engines.memory.faults import Fault, attempt
from render_agent.engines.transformers.memory.sizing import Sizing, fit_rows
from render_agent.engines.transformers.model.inputs import PreparedPrompt
from render_agent.engines.transformers.model.load import LoadedModel


@dataclass(frozen=True, slots=True)
class Scored:
    """One request with the tokens of its choices."""

    prompt: PreparedPrompt
    choices: tuple[tuple[int, ...], ...]

    @property
    def tokens(self) -> int:
        """Those of the prompt and its longest choice, the last of which is never read."""
        return len(self.prompt.ids) + max(map(len, self.choices)) - 1


@dataclass(frozen=True, slots=True)
class Prefilled:
    """Prompts that were read once, for all their choices.

    first: log-probabilities of the token behind each prompt, (rows, vocabulary) float32. mask:
    (rows, length), 0 where a prompt is padded. next: the position behind each prompt, (axes, rows).
    """

    first: torch.Tensor
    cache: Any
    mask: torch.Tensor
    next: torch.Tensor


def score_choices(
    loaded: LoadedModel,
    requests: Sequence[Request],
    choices: Sequence[Sequence[str]],
    sizing: Sizing,
) -> list[Scores]:
    """Return for every request, in their order, how likely each of its choices is.

    Every prompt is read once; its choices share its keys and values. Prompts of similar length go
    together, as many as `sizing` says that memory holds, the first of all alone; what does not fit is
    halved, and what that teaches is kept. A fault of one request is its `Scores.error`. ValueError
    where a request has no choices or one that is empty; EngineError where the device is lost.
    """
    tokens = [choice_tokens(loaded.tokenizer, options) for options in choices]
    scores: dict[int, Scores] = {}
    able: dict[int, Scored] = {}
    for place, (request, options) in enumerate(zip(requests, tokens, strict=True)):
        prepared = loaded.prepare(request, max(map(len, options)) - 1)
        if isinstance(prepared, str):
            scores[place] = Scores(error=prepared)
        else:
            able[place] = Scored(prepared, options)
    longest_first = sorted(able, key=lambda place: -able[place].tokens)
    # Nothing is known of what a batch needs before one was read.
    first = 0 if sizing.largest else 1
    for places in (longest_first[:first], longest_first[first:]):
        became = _fitted(loaded, [able[place] for place in places], sizing)
        scores.update(zip(places, became, strict=True))
    return [scores[place] for place in range(len(requests))]


def choice_tokens(tokenizer: Any, choices: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the tokens of each choice. ValueError where there is none, or an empty one."""
    if not choices:
        raise ValueError("a request without choices cannot be scored")
    tokens = [tuple(tokenizer.encode(text, add_special_tokens=False)) for text in choices]
    if not all(tokens):
        raise ValueError("an empty choice cannot be scored")
    return tuple(tokens)


def _fitted(loaded: LoadedModel, batch: Sequence[Scored], sizing: Sizing) -> list[Scores]:
    """Return the scores of one batch, halved where it does not fit."""
    fitted = fit_rows(
        [scored.tokens for scored in batch],
        lambda places: _score(loaded, [batch[place] for place in places], sizing),
        sizing,
    )
    fitted_scores = [
        Scores(error=loaded.fault_text(row, scored.prompt)) if isinstance(row, Fault) else row
        for row, scored in zip(fitted, batch, strict=True)
    ]
    return [replace(scores, events=sizing.take_events()) for scores in fitted_scores]


def _score(loaded: LoadedModel, batch: Sequence[Scored], sizing: Sizing) -> list[Scores] | Fault:
    """Return the scores of prompts read in one call, or why it failed.

    A prompt whose choices do not fit beside it has fewer of them in one call, in the end one.
    """
    began = time.perf_counter()
    longest = max(scored.tokens for scored in batch)
    rows = sizing.rows_that_fit(longest)
    with watched(sizing.memory) as needed:
        while isinstance(
            scores := attempt(
                partial(_log_probabilities, loaded, batch, rows), loaded.model.device
            ),
            Fault,
        ):
            rows = min(rows, len(batch[0].choices))
            if not scores.out_of_memory or len(batch) > 1 or rows == 1:
                return scores
            rows = (rows + 1) // 2
    sizing.observe(len(batch) * longest, needed[0])
    seconds = time.perf_counter() - began
    return [
        Scores(
            tuple(given),
            Tokens(prompt=len(scored.prompt.ids), reply=sum(map(len, scored.choices))),
            seconds,
            len(batch),
        )
        for given, scored in zip(scores, batch, strict=True)
    ]


def _log_probabilities(
    loaded: LoadedModel, batch: Sequence[Scored], rows: int
) -> list[list[float]]:
    """Return for each of a batch its choices' log-probabilities.

    rows: choices of more than one token in one call. Raises whatever the model causes.
    """
    with torch.inference_mode():
        prefilled = _read(loaded, [scored.prompt for scored in batch])
        scores = [
            [float(prefilled.first[row, tokens[0]]) for tokens in scored.choices]
            for row, scored in enumerate(batch)
        ]
        longer = [
            (row, place, tokens)
            for row, scored in enumerate(batch)
            for place, tokens in enumerate(scored.choices)
            if len(tokens) > 1
        ]
        for start in range(0, len(longer), rows):
            chunk = longer[start : start + rows]
            rests = _rests(loaded.model, prefilled, [(row, tokens) for row, _, tokens in chunk])
            for (row, place, _), rest in zip(chunk, rests, strict=True):
                scores[row][place] += rest
    return scores


def _read(loaded: LoadedModel, prompts: Sequence[PreparedPrompt]) -> Prefilled:
    """Return prompts read in one call, padded on the left."""
    model = loaded.model
    tensors = loaded.inputs.encode(prompts, str(model.device))
    tensors = tensors.to(device=model.device, dtype=model.dtype)
    mask = tensors["attention_mask"]
    places = _positions(model, tensors)
    output = model(**tensors, position_ids=as_taken(places), use_cache=True, logits_to_keep=1)
    return Prefilled(
        first=output.logits[:, -1].float().log_softmax(-1),
        cache=output.past_key_values,
        mask=mask,
        next=places.amax(-1) + 1,
    )


def _rests(
    model: Any, prefilled: Prefilled, rows: Sequence[tuple[int, tuple[int, ...]]]
) -> list[float]:
    """Return the summed log-probabilities of choices' tokens from the second on, read in one call.

    rows: of each choice, the row of its prompt and its tokens, of which there are two or more.
    """
    device = prefilled.mask.device
    prompts = torch.tensor([row for row, _ in rows], device=device)
    inputs = [torch.tensor(tokens[:-1]) for _, tokens in rows]
    wanted = [torch.tensor(tokens[1:]) for _, tokens in rows]
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad(inputs, batch_first=True).to(device)
    targets = pad(wanted, batch_first=True, padding_value=-1).to(device)
    steps = torch.arange(ids.shape[1], device=device)
    output = model(
        input_ids=ids,
        # Behind the end of a shorter choice nothing is looked at that counts.
        attention_mask=torch.cat(
            [prefilled.mask[prompts], (targets >= 0).to(prefilled.mask.dtype)], 1
        ),
        position_ids=as_taken(prefilled.next[:, prompts, None] + steps),
        past_key_values=_selected(prefilled.cache, prompts),
        use_cache=True,
    )
    logs = output.logits.float().log_softmax(-1)
    single = logs.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    summed: list[float] = single.where(targets >= 0, 0).double().sum(1).tolist()
    return summed


def as_taken(places: torch.Tensor) -> torch.Tensor:
    """Return positions (axes, rows, tokens) as a model takes them: without the axis where it is one."""
    return places[0] if places.shape[0] == 1 else places


def _positions(model: Any, tensors: Any) -> torch.Tensor:
    """Return the positions of a batch's tokens, (axes, rows, length): three axes where pictures have them."""
    mask = tensors["attention_mask"]
    if not hasattr(model.model, "get_rope_index"):
        rows: torch.Tensor = (mask.cumsum(-1) - 1).clamp(min=0)
        return rows[None]
    names = ("mm_token_type_ids", "image_grid_thw")
    positions, _ = model.model.get_rope_index(
        tensors["input_ids"],
        attention_mask=mask,
        **{name: tensors[name] for name in names if name in tensors},
    )
    # Padding has the position 1, which is never the highest of a prompt.
    return torch.as_tensor(positions)


def _selected(cache: Any, rows: torch.Tensor) -> Any:
    """Return keys and values of these rows, some more than once; the cache stays as it is."""
    selected = copy.copy(cache)
    selected.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in selected.layers:
        # A recurrent layer keeps its states in mappings, which a copy would share.
        for name in ("conv_states", "recurrent_states"):
            if hasattr(layer, name):
                setattr(layer, name, dict(getattr(layer, name)))
        layer.reorder_cache(rows)
    return selected
