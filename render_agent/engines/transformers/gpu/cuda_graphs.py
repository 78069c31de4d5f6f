"""Decoding with CUDA graphs: the first step of a number of rows is captured, and then launched as a whole."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import torch

from render_agent.engines.transformers.attention import DecodeAttention, page_slots
from render_agent.engines.transformers.decode import Decoder
from render_agent.engines.transformers.gpu.fused_layers import fuse_layers
from render_agent.engines.transformers.kv_cache import PAGE_TOKENS, KVCache
from render_agent.engines.transformers.sampling import most_likely_tokens
from render_agent.engines.transformers.sequences import Sample
from render_agent.engines.transformers.transformers_options import position_limit

LOG = logging.getLogger(__name__)

# Numbers of rows for which a step is captured; smaller batches are padded. Up to 64 rows, reading the weights takes longest.
BUCKETS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256)
STEPS_WITHOUT_GRAPHS = 64  # steps after dropping the graphs until they are captured again
# Columns of a step's input; the pages fill all columns from `PAGES` on.
TOKEN, POSITION, LENGTH, PAGES = 0, 1, 2, 3


class GraphDecoder(Decoder):
    """A decoder that captures each number of rows as a CUDA graph when it is first needed.

    The first arguments are those of `Decoder`. Steps with more than `most_rows` rows, or with a row of more than `longest`
    tokens, run without graphs.
    """

    def __init__(
        self,
        model: Any,
        cache: KVCache,
        axes: int,
        suppressed: Sequence[int],
        fixed_rows: int | None,
        most_rows: int,
        longest: int,
    ) -> None:
        super().__init__(model, cache, axes, suppressed, fixed_rows)
        fuse_layers(model)
        tokens = min(max(longest, 4096), position_limit(model.config) or longest)
        self.most_pages = min(-(-tokens // PAGE_TOKENS), cache.page_limit)
        self.buckets = [rows for rows in BUCKETS if rows < most_rows]
        self.buckets.append(min(most_rows, BUCKETS[-1]))
        if fixed_rows is not None:
            self.buckets = [fixed_rows]
        rows, width = self.buckets[-1], PAGES + self.most_pages
        self._host = torch.zeros(rows, width, dtype=torch.int32, pin_memory=True)
        self._array = self._host.numpy()
        self._given = torch.zeros(rows, width, dtype=torch.int32, device=model.device)
        self._tokens = torch.zeros(rows, dtype=torch.long, device=model.device)
        words = model.config.get_text_config().vocab_size
        self._logits = torch.zeros(rows, words, dtype=torch.float32, device=model.device)
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._wait = 0

    def step(self, rows: Sequence[Sample]) -> tuple[torch.Tensor, torch.Tensor]:
        """Feed the newest token of every row, as in `Decoder.step`."""
        count = len(rows)
        pages = max(len(row.sequence.ids) // PAGE_TOKENS + 1 for row in rows)
        bucket = next((size for size in self.buckets if size >= count), None)
        self._wait = max(0, self._wait - 1)
        if bucket is None or pages > self.most_pages or not self._is_captured(bucket):
            return super().step(rows)
        array = self._array
        array[:bucket] = 0
        for place, row in enumerate(rows):
            own = row.sequence.pages[: self.most_pages]
            array[place, :PAGES] = row.written[-1], row.position, len(row.sequence.ids)
            array[place, PAGES : PAGES + len(own)] = own
        with torch.inference_mode():
            self._given[:bucket].copy_(self._host[:bucket], non_blocking=True)
            self._graphs[bucket].replay()
        return self._logits[:count], self._tokens[:count]

    def drop(self) -> bool:
        """Release the memory of the graphs, and capture them again after some steps."""
        had_graphs = bool(self._graphs)
        self._graphs.clear()
        self._wait = STEPS_WITHOUT_GRAPHS
        return had_graphs

    def _is_captured(self, rows: int) -> bool:
        """Capture the step for a number of rows if necessary; return False if that is impossible now."""
        if rows not in self._graphs and not self._wait:
            began = time.perf_counter()
            try:
                with torch.inference_mode():
                    self._graphs[rows] = self._capture(rows)
                LOG.info("captured %d rows in %.2f s", rows, time.perf_counter() - began)
            # A step can contain operations that cannot be captured, or memory may be low.
            except RuntimeError:
                LOG.warning("decoding without CUDA graphs: capturing failed", exc_info=True)
                self.drop()
        return rows in self._graphs

    def _capture(self, rows: int) -> torch.cuda.CUDAGraph:
        device = self.model.device
        self._given[:rows].zero_()
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        # Warm up: compile kernels and allocate workspaces before capturing.
        with torch.cuda.stream(stream):
            self._compute(rows)
        torch.cuda.current_stream(device).wait_stream(stream)
        torch.cuda.synchronize(device)
        graph = torch.cuda.CUDAGraph()
        pool = next((other.pool() for other in self._graphs.values()), None)
        # thread_local, because threads that build prompts may use the GPU meanwhile.
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
            self._compute(rows)
        return graph

    def _compute(self, rows: int) -> None:
        """Compute the logits and the most likely tokens of some rows into the buffers of `step`."""
        inputs = self._given[:rows]
        lengths, tables = inputs[:, LENGTH].contiguous(), inputs[:, PAGES:]
        call = DecodeAttention(self.cache.layers, page_slots(tables, lengths), tables, lengths + 1)
        logits = self._logits[:rows]
        logits.copy_(self.logits(inputs[:, TOKEN].long(), inputs[:, POSITION].long(), call))
        self._tokens[:rows].copy_(most_likely_tokens(logits))
