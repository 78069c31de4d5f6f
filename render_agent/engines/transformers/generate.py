"""Rows → what a model writes behind them, in one call of `generate`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from render_agent.dialogue.state import Tokens
from render_agent.engines.transformers.loaded_model import LoadedModel
from render_agent.engines.transformers.rows import Row, Written


def generate_rows(loaded: LoadedModel, rows: Sequence[Row], limits: Sequence[int]) -> list[Written]:
    """Return what each row became, its reply of at most so many tokens. Raises whatever that causes."""
    import torch

    from render_agent.engines.transformers.constrained_decoding import guided_rows
    from render_agent.engines.transformers.sampling import RowLimits

    began = time.perf_counter()
    device = loaded.model.device
    tensors = loaded.inputs.encode([row.prompt for row in rows], str(device))
    tensors = tensors.to(device=device, dtype=loaded.model.dtype)
    length = tensors["input_ids"].shape[1]
    with torch.inference_mode():
        ids = loaded.model.generate(
            **tensors,
            do_sample=False,
            max_new_tokens=max(limits),
            eos_token_id=loaded.ends or None,
            pad_token_id=loaded.pad,
            suppress_tokens=loaded.suppressed or None,
            stopping_criteria=[RowLimits(torch.tensor(limits, device=device), length)],
            logits_processor=guided_rows(loaded.guides, rows, length)
            + _sampling(loaded, rows, length)
            + _forced(loaded, rows, length),
        )
    replies = ids[:, length:].tolist()
    prompt_tokens = tensors["attention_mask"].sum(1).tolist()
    seconds = time.perf_counter() - began
    questions = len({id(row.request) for row in rows})
    return [
        _written(loaded, reply[:limit], read, seconds, questions)
        for reply, limit, read in zip(replies, limits, prompt_tokens, strict=True)
    ]


def _sampling(loaded: LoadedModel, rows: Sequence[Row], length: int) -> list[Any]:
    """Return the logits processor that samples, where any row is not greedy."""
    import torch

    from render_agent.engines.transformers.sampling import RowSampling, draws_of_rows

    temperatures = [row.request.temperature for row in rows]
    if not any(temperatures):
        return []
    device = loaded.model.device
    draws = draws_of_rows([(row.request, row.sample) for row in rows]).to(device)
    heats = torch.tensor(temperatures, device=device)
    return [RowSampling(draws, heats, length, loaded.truncation)]


def _forced(loaded: LoadedModel, rows: Sequence[Row], length: int) -> list[Any]:
    """Return the logits processor that writes what the script says, where there is one."""
    if loaded.script is None:
        return []
    from render_agent.engines.transformers.teacher_forcing import ForcedRows

    return [ForcedRows([loaded.forced(row.request) or [] for row in rows], length)]


def _written(
    loaded: LoadedModel, ids: list[int], read: int, seconds: float, batch_size: int
) -> Written:
    """Return a reply up to the token that ends it."""
    ended = next((place for place, token in enumerate(ids) if token in loaded.ends), None)
    kept = ids if ended is None else ids[:ended]
    counted = Tokens(prompt=read, reply=len(kept) + (ended is not None))
    return Written(loaded.text(kept), counted, seconds, batch_size, ended is None)
