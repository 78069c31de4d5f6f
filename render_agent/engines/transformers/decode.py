"""Decoding: one token more for every row, in one call of the model."""

from __future__ import annotations

from collections.abc import Sequence as Several
from importlib.util import find_spec
from typing import Any

import torch

from render_agent.engines.transformers.attention import (
    DecodeAttention,
    logits_of,
    on_one_gpu,
    page_index,
)
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, KVCache
from render_agent.engines.transformers.model.recurrent_state import LIVE, SPARE, StateCall
from render_agent.engines.transformers.sequences import Sample


class Decoder:
    """Runs one decoding step: writes the newest token of every row into the cache and returns the next logits.

    axes: how many positions a token has. suppressed: tokens that are never written.
    """

    def __init__(self, model: Any, cache: KVCache, axes: int, suppressed: Several[int]) -> None:
        self.model = model
        self.cache = cache
        self.axes = axes
        self.suppressed = torch.tensor(list(suppressed), dtype=torch.long, device=model.device)

    def step(self, rows: Several[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        """Feed the newest token of every row; return the logits of the next ones, and the likeliest.

        Logits are (rows, vocabulary) float32, the likeliest (rows,) int64; both may be overwritten by the next step,
        and a GPU may be at work on them yet. Raises whatever the model causes; the call can be made again.
        """
        device = self.model.device
        sequences = [row.sequence for row in rows]
        counts = [len(sequence.ids) for sequence in sequences]
        slots = [
            sequence.pages[count // PAGE_TOKENS] * PAGE_TOKENS + count % PAGE_TOKENS
            for sequence, count in zip(sequences, counts, strict=True)
        ]
        inputs = torch.tensor([[row.written[-1], row.position] for row in rows], device=device)
        call = DecodeAttention(
            self.cache.layers,
            torch.tensor(slots, device=device),
            **self._tables(sequences, counts, device),
            states=self._states(sequences, device),
        )
        with torch.inference_mode():
            logits = self.logits(inputs[:, 0], inputs[:, 1], call)
            return logits, logits.argmax(-1)

    def logits(
        self, ids: torch.Tensor, places: torch.Tensor, call: DecodeAttention
    ) -> torch.Tensor:
        """Return the logits behind one token a row, (rows, vocabulary) float32."""
        axes = places.expand(self.axes, -1)
        return self.allowed(logits_of(self.model, call, ids, axes, 0).float())

    def allowed(self, logits: torch.Tensor) -> torch.Tensor:
        """Return logits without the tokens that are never written."""
        return (
            logits.index_fill_(-1, self.suppressed, -torch.inf) if len(self.suppressed) else logits
        )

    def drop(self) -> bool:
        """Give back memory that only makes steps quicker; whether there was any."""
        return False

    def _states(self, sequences: Several[Any], device: Any) -> StateCall | None:
        """Return how recurrent layers take one token a row; None where there are none."""
        if self.cache.states is None:
            return None
        slots = [[s.states.slots[place] for s in sequences] for place in (LIVE, SPARE)]
        sources, targets = torch.tensor(slots, device=device)
        return StateCall(self.cache.states, rows=(sources, targets))

    def _tables(self, sequences: Several[Any], counts: Several[int], device: Any) -> dict[str, Any]:
        """Return pages and lengths as attention takes them on this device."""
        if triton_runs(self.model, self.cache):
            most = max(count // PAGE_TOKENS + 1 for count in counts)
            pages = [(s.pages + [0] * most)[:most] for s in sequences]
            tables = torch.tensor(pages, dtype=torch.int32, device=device)
            lengths = torch.tensor(counts, dtype=torch.int32, device=device) + 1
            return {"tables": tables, "lengths": lengths}
        rows = [
            (page_index(s.pages[: count // PAGE_TOKENS + 1], device), count + 1)
            for s, count in zip(sequences, counts, strict=True)
        ]
        return {"tables": torch.empty(0), "lengths": torch.empty(0), "rows": rows}


def triton_runs(model: Any, cache: KVCache) -> bool:
    """Whether kernels in Triton can attend for a model in the layers of its cache."""
    return on_one_gpu(model) and find_spec("triton") is not None and cache.is_plain
