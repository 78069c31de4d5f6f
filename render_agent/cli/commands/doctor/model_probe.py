"""Tests a model on this machine: replies in batches, reuse of the KV cache, and reproducibility."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import Any

from render_agent.errors import SetupError

NEW_TOKENS = 8  # tokens generated per reply
DIALOGUE_TOKENS = 2000  # estimated tokens per dialogue of the reproducible engine

# Tolerated RMS difference of half-precision scores, relative to their range.
MAX_RELATIVE_ERROR = 0.03


def probe_model(name: str, device: str, dtype: str) -> dict[str, Any]:
    """Test a model; return the `seconds` taken, and why `batch`, `reuse` or `reproducible` replies differ (None:
    equal).

    Prompts are one token longer than multiples of 32, because GPU kernels have failed at such lengths before.
    """
    from render_agent.engines.transformers.model.load import open_model

    started_at = time.perf_counter()
    model = open_model(name, device=device, dtype=dtype)
    return {**_probe_loaded(model), "seconds": time.perf_counter() - started_at}


def _probe_loaded(model: Any) -> dict[str, str | None]:
    from render_agent.engines.transformers.cache_check import check_cache

    why = model.inputs.family.why or check_cache(model)
    return {
        "batch": _why_batch_differs(model),
        "reuse": why,
        "reproducible": _why_not_reproducible(model),
    }


def _why_not_reproducible(loaded: Any) -> str | None:
    """Return why this model cannot be reproducible on its device; None if replies do not depend on the batch."""
    from render_agent.engines.transformers.factory import build_engine

    try:
        build_engine(loaded, None, {}, DIALOGUE_TOKENS, reproducible=True).close()
    except SetupError as error:
        return str(error)
    return None


def _why_batch_differs(model: Any) -> str | None:
    """Return how replies in a batch differ from replies to single requests; None if they do not."""
    import torch

    from render_agent.dialogue import chat
    from render_agent.engines.engine import Request
    from render_agent.engines.transformers.cache_check import (
        misalign,
        row_differences,
        uncached_scores,
    )
    from render_agent.engines.transformers.generate_engine import TransformersEngine

    def request(text: str, *files: str) -> Request:
        pieces = [chat.text(text), *(chat.image_piece(file) for file in files)]
        plain = Request(text, 0, [chat.message("user", *pieces)], _load_image)
        return replace(misalign(model, plain), max_new_tokens=NEW_TOKENS)

    requests = [request("What is this?", "a.png"), request("What? " * 16, "a.png", "b.png")]
    if model.model.dtype == torch.float32 or model.inputs.family.alone:
        batched_replies = TransformersEngine(model, batch_size=2).generate(requests)
        single_replies = TransformersEngine(model, batch_size=1).generate(requests)
        for batched, single in zip(batched_replies, single_replies, strict=True):
            if reason := batched.error or single.error:
                return reason
            if batched.samples != single.samples:
                return "a reply changes if it is generated in a batch"
        return None
    # Rounding alone can change a greedy choice, so scores are compared too.
    prompts = [model.inputs.prepare(request) for request in requests]
    apiece = torch.cat([uncached_scores(model, [prompt]) for prompt in prompts])
    difference = float(row_differences(uncached_scores(model, prompts), apiece, exact=False).max())
    if math.isnan(difference):
        return str(model.invalid_scores())
    if difference <= MAX_RELATIVE_ERROR:
        return None
    return f"scores in a batch differ by {difference:.2g} of their range"


def _load_image(file: str) -> Any:
    from PIL import Image

    slope = Image.linear_gradient("L").resize((96, 64))
    return Image.merge("RGB", [slope, slope.rotate(180 if file == "a.png" else 90), slope])
