"""Which families of models answer here as they should: a small one of each, with random weights, is tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from render_agent import registry
from render_agent.config import AUTO
from render_agent.errors import RenderAgentError

NEW_TOKENS = 8

GPU_SECONDS, CPU_SECONDS = 60.0, 240.0
"""For all families together; what is not tried by then says so. On a shared machine of two cores they take some 60."""

ROUGH = 0.03
"""By how much of their range scores in half precision may differ, by the root of their mean square."""


def probe_families(device: str = AUTO, dtype: str = AUTO) -> dict[str, Any]:
    """Return for every family why it does not answer as it should, and how long that took to see.

    `batch`: whether two requests answered together get what each gets alone. `reuse`: whether what
    is kept over the turns changes nothing. Each is None where it holds, else a sentence. dtype: that of the
    weights, by default what a run takes on that device. Prompts are a token longer than multiples of 32, where
    kernels of GPUs were wrong before.
    """
    from render_agent.engines.checkpoint.pretrained import choose_device

    place = choose_device(device)
    on_cpu = place == "cpu"
    kind = ("float32" if on_cpu else "bfloat16") if dtype == AUTO else dtype
    end = time.perf_counter() + (CPU_SECONDS if on_cpu else GPU_SECONDS)
    results: dict[str, dict[str, Any]] = {}
    for name, make in small_models().items():
        began = time.perf_counter()
        tried = _tried(make, place, kind) if began < end else LATE
        results[name] = {**tried, "seconds": time.perf_counter() - began}
    return {"families": results}


LATE: Mapping[str, str | None] = {"batch": "not tried: the time for it was over", "reuse": None}


def small_models() -> dict[str, Callable[[str], Any]]:
    """Return by name what makes a small model of each family, on a device; installed packages bring them."""
    return {name: registry.load("small model", name) for name in registry.names("small model")}


def probe_model(name: str, device: str, dtype: str) -> dict[str, Any]:
    """Return the same of a model by name, its own weights loaded. SetupError where they cannot be."""
    from render_agent.engines.transformers.model.load import open_model

    began = time.perf_counter()
    loaded = open_model(name, device=device, dtype=dtype)
    return {**_probed(loaded), "seconds": time.perf_counter() - began}


def _tried(make: Callable[[str], Any], device: str, dtype: str) -> Mapping[str, str | None]:
    """Return the finding about one family; any exception of its classes is reported as the finding."""
    import torch

    from render_agent.engines.transformers.model.load import open_model

    try:
        made = make(device)
        for part in (*made.model.parameters(), *made.model.buffers()):
            if part.is_floating_point():
                part.data = part.data.to(getattr(torch, dtype))
        return _probed(open_model("a small one", pretrained=made))
    except RenderAgentError as error:
        return {"batch": str(error), "reuse": None}
    except Exception as error:  # noqa: BLE001 - a library that lacks a class, or fails in it
        return {"batch": f"{type(error).__name__}: {error}", "reuse": None}


def _probed(loaded: Any) -> dict[str, str | None]:
    from render_agent.engines.transformers.cache_check import cache_mismatch

    why = loaded.inputs.family.why or cache_mismatch(loaded)
    return {"batch": _why_batch_differs(loaded), "reuse": why}


def _why_batch_differs(loaded: Any) -> str | None:
    """Return in one sentence how a batch says something else than its requests alone."""
    import torch

    from render_agent.dialogue import chat
    from render_agent.engines.base import Request
    from render_agent.engines.transformers.cache_check import (
        misaligned,
        row_differences,
        uncached_scores,
    )
    from render_agent.engines.transformers.generate_engine import TransformersEngine

    def request(text: str, *files: str) -> Request:
        pieces = [chat.text(text), *(chat.picture(file) for file in files)]
        plain = Request(text, 0, [chat.message("user", *pieces)], _picture)
        return replace(misaligned(loaded, plain), max_new_tokens=NEW_TOKENS)

    requests = [request("What is this?", "a.png"), request("What? " * 16, "a.png", "b.png")]
    if loaded.model.dtype == torch.float32 or loaded.inputs.family.alone:
        together = TransformersEngine(loaded, batch_size=2).generate(requests)
        alone = TransformersEngine(loaded, batch_size=1).generate(requests)
        for batched, single in zip(together, alone, strict=True):
            if reason := batched.error or single.error:
                return reason
            if batched.samples != single.samples:
                return "a reply differs when others are answered with it"
        return None
    # Rounding alone may turn a greedy choice.
    prompts = [loaded.inputs.prepare(each) for each in requests]
    apiece = torch.cat([uncached_scores(loaded, [prompt]) for prompt in prompts])
    difference = float(row_differences(uncached_scores(loaded, prompts), apiece, exact=False).max())
    if difference <= ROUGH:
        return None
    return f"scores differ by {difference:.2g} of their range when others are read with them"


def _picture(file: str) -> Any:
    from PIL import Image

    slope = Image.linear_gradient("L").resize((96, 64))
    return Image.merge("RGB", [slope, slope.rotate(180 if file == "a.png" else 90), slope])
