"""Which families of models answer here as they should: a small one of each, with random weights, is tried."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from render_agent import registry
from render_agent.errors import RenderAgentError

NEW_TOKENS = 8


def probe_families(device: str = "auto") -> dict[str, Any]:
    """Return for every family why it does not answer as it should, and how long that took to see.

    `batch`: whether two requests answered together get what each gets alone. `reuse`: whether what
    is kept over the turns changes nothing. Each is None where it holds, else a sentence. In float32.
    """
    results = {}
    for name, make in small_models().items():
        began = time.perf_counter()
        results[name] = {**_tried(make, device), "seconds": time.perf_counter() - began}
    return {"families": results}


def small_models() -> dict[str, Callable[[str], Any]]:
    """Return by name what makes a small model of each family, on a device; installed packages bring them."""
    return {name: registry.load("small model", name) for name in registry.names("small model")}


def probe_model(name: str, device: str, dtype: str) -> dict[str, Any]:
    """Return the same of a model by name, its own weights loaded. SetupError where they cannot be."""
    from render_agent.engines.transformers.model.load import open_model

    began = time.perf_counter()
    loaded = open_model(name, device=device, dtype=dtype)
    return {**_probed(loaded), "seconds": time.perf_counter() - began}


def _tried(make: Callable[[str], Any], device: str) -> Mapping[str, str | None]:
    """Return what was found of one family; whatever its classes raise is what is to be found."""
    from render_agent.engines.transformers.model.load import open_model

    try:
        return _probed(open_model("a small one", pretrained=make(device)))
    except RenderAgentError as error:
        return {"batch": str(error), "reuse": None}
    except Exception as error:  # noqa: BLE001 - a library that lacks a class, or fails in it
        return {"batch": f"{type(error).__name__}: {error}", "reuse": None}


def _probed(loaded: Any) -> dict[str, str | None]:
    from render_agent.engines.transformers.cache_check import why_not_kept

    return {"batch": _why_batch_differs(loaded), "reuse": why_not_kept(loaded)}


def _why_batch_differs(loaded: Any) -> str | None:
    """Return in one sentence how replies of a batch differ from those of its requests alone."""
    from PIL import Image

    from render_agent.dialogue import chat
    from render_agent.engines.base import Request
    from render_agent.engines.transformers.generate_engine import TransformersEngine

    def picture(file: str) -> Image.Image:
        slope = Image.linear_gradient("L").resize((96, 64))
        return Image.merge("RGB", [slope, slope.rotate(180), slope])

    def request(text: str, *files: str) -> Request:
        pieces = [chat.text(text), *(chat.picture(file) for file in files)]
        return Request(text, 0, [chat.message("user", *pieces)], picture, max_new_tokens=NEW_TOKENS)

    requests = [request("What is this?", "a.png"), request("Say something about nothing.")]
    together = TransformersEngine(loaded, batch_size=2).generate(requests)
    alone = TransformersEngine(loaded, batch_size=1).generate(requests)
    for batched, single in zip(together, alone, strict=True):
        if reason := batched.error or single.error:
            return reason
        if batched.samples != single.samples:
            return "a reply differs when others are answered with it"
    return None
