"""Decoding: one new token for every row, in one call of the model."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import torch

from render_agent.engines.transformers.attention import (
    DecodeAttention,
    is_on_one_gpu,
    logits_of,
    page_index,
)
from render_agent.engines.transformers.kv_cache import (
    PAGE_TOKENS,
    SCRATCH_PAGE,
    CachedSequence,
    KVCache,
)
from render_agent.engines.transformers.model.recurrent_state import LIVE, SPARE, StateCall
from render_agent.engines.transformers.sampling import most_likely_tokens
from render_agent.engines.transformers.sequences import Sample


class Decoder:
    """Runs decoding steps: adds the newest token of every row to the cache and returns the next logits."""

    def __init__(
        self,
        model: Any,
        cache: KVCache,
        axes: int,  # position axes per token, 1 or 3
        suppressed: Sequence[int],
        # rows of every call, including padding; None for as many as there are
        fixed_rows: int | None = None,
    ) -> None:
        self.model = model
        self.cache = cache
        self.axes = axes
        self.fixed_rows = fixed_rows
        self.suppressed = torch.tensor(list(suppressed), dtype=torch.long, device=model.device)

    def step(self, rows: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        """Feed the newest token of every row; raise any error of the model. The call can be repeated.

        Returns the logits of the next tokens, (rows, vocabulary) float32, and `most_likely_tokens`, (rows,) int64. The
        next step may overwrite both, and on a GPU they may not be computed yet.
        """
        device = self.model.device
        padding = max(0, (self.fixed_rows or 0) - len(rows))
        sequences = [
            *(row.sequence for row in rows),
            *[CachedSequence("", pages=[SCRATCH_PAGE])] * padding,
        ]
        counts = [len(sequence.ids) for sequence in sequences]
        slots = [
            sequence.pages[count // PAGE_TOKENS] * PAGE_TOKENS + count % PAGE_TOKENS
            for sequence, count in zip(sequences, counts, strict=True)
        ]
        newest = [[row.written[-1], row.position] for row in rows] + [[0, 0]] * padding
        inputs = torch.tensor(newest, device=device)
        call = DecodeAttention(
            self.cache.layers,
            torch.tensor(slots, device=device),
            **self._tables(sequences, counts, device),
            states=self._states(sequences, device),
            fused=self.cache.uses_kernels,
        )
        with torch.inference_mode():
            logits = self.logits(inputs[:, 0], inputs[:, 1], call)
            return logits[: len(rows)], most_likely_tokens(logits[: len(rows)])

    def logits(
        self, ids: torch.Tensor, positions: torch.Tensor, call: DecodeAttention
    ) -> torch.Tensor:
        """Return the logits after one token per row, (rows, vocabulary) float32."""
        axes = positions.expand(self.axes, -1)
        return self.suppress(logits_of(self.model, call, ids, axes, 0).float())

    def suppress(self, logits: torch.Tensor) -> torch.Tensor:
        """Set the logits of suppressed tokens to -inf, in place."""
        return (
            logits.index_fill_(-1, self.suppressed, -torch.inf) if len(self.suppressed) else logits
        )

    def drop(self) -> bool:
        """Release memory that only speeds up steps; return False if there is none."""
        return False

    def _states(self, sequences: Sequence[Any], device: Any) -> StateCall | None:
        """Return the use of recurrent states; None if the model has none."""
        if self.cache.states is None:
            return None
        slots = [[s.states.slots[index] for s in sequences] for index in (LIVE, SPARE)]
        sources, targets = torch.tensor(slots, device=device)
        return StateCall(self.cache.states, rows=(sources, targets))

    def _tables(
        self, sequences: Sequence[Any], counts: Sequence[int], device: Any
    ) -> dict[str, Any]:
        """Return the arguments of `DecodeAttention` for pages and lengths, depending on the device."""
        if can_use_triton(self.model, self.cache):
            num_pages = max(count // PAGE_TOKENS + 1 for count in counts)
            pages = [(s.pages + [0] * num_pages)[:num_pages] for s in sequences]
            tables = torch.tensor(pages, dtype=torch.int32, device=device)
            lengths = torch.tensor(counts, dtype=torch.int32, device=device) + 1
            return {"tables": tables, "lengths": lengths}
        rows = [
            (page_index(s.pages[: count // PAGE_TOKENS + 1], device), count + 1)
            for s, count in zip(sequences, counts, strict=True)
        ]
        return {"tables": torch.empty(0), "lengths": torch.empty(0), "rows": rows}


def can_use_triton(model: Any, cache: KVCache) -> bool:
    """True if the Triton kernels support a model and the layers of its cache, and are not switched off."""
    return is_on_one_gpu(model) and find_spec("triton") is not None and cache.fits_kernels
