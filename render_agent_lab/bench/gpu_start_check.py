"""The start check on this device: a sound engine passes, and each part that is broken on purpose is found.

    python -m render_agent_lab.bench.gpu_start_check --output render_agent_lab/bench/results/gpu_start_check.md

The model has random weights. Parts that an engine does not have on this device are listed as absent. The check is always
complete, even if that takes a slow device longer than a run would wait.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

import click

from render_agent import __version__
from render_agent.engines.transformers import prefill, start_check
from render_agent.engines.transformers.factory import build_engine, plain_engine
from render_agent.engines.transformers.kv_cache import KVCache
from render_agent.engines.transformers.model.load import LoadedModel, open_model
from render_agent.engines.transformers.scheduler import GRAPHS, KERNELS, REUSE
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.errors import SetupError
from render_agent_lab.bench.command import model_summary
from render_agent_lab.bench.harness import OUTPUT, machine, publish, table
from render_agent_lab.random_models.random_model import random_model

GPU = "render_agent.engines.transformers.gpu"
DIALOGUE_TOKENS = 2000  # estimated tokens per dialogue

Break = Callable[[ContinuousEngine], AbstractContextManager[Any]]


def stale_graph_inputs(engine: ContinuousEngine) -> AbstractContextManager[Any]:
    """Replay graphs with the inputs of their capture."""
    decoder: Any = engine.scheduler.decoder
    return mock.patch.object(decoder, "_host", decoder._host.clone())


def wrong_attention_kernel(engine: ContinuousEngine) -> AbstractContextManager[Any]:
    """Use a wrong scale."""
    kernels = import_module(f"{GPU}.kernels")
    right = kernels.paged_decode
    return mock.patch.object(
        kernels, "paged_decode", lambda *args: right(*args[:-1], 1.1 * args[-1])
    )


def wrong_fused_layers(engine: ContinuousEngine) -> AbstractContextManager[Any]:
    fused_layers = import_module(f"{GPU}.fused_layers")
    right = fused_layers.silu_mul
    return mock.patch.object(fused_layers, "silu_mul", lambda states: 1.1 * right(states))


def overwritten_pages(engine: ContinuousEngine) -> AbstractContextManager[Any]:
    """Overwrite the pages of dialogues between two turns."""
    import torch

    unpin = KVCache.unpin

    def overwriting_unpin(cache: KVCache, sequence: Any) -> None:
        unpin(cache, sequence)
        with torch.inference_mode():
            for layer in cache.layers.values():
                layer.keys[sequence.pages] += 1

    return mock.patch.object(KVCache, "unpin", overwriting_unpin)


def shifted_positions(engine: ContinuousEngine) -> AbstractContextManager[Any]:
    """Shift the positions of the tokens after the first image."""
    right = prefill.token_positions

    def shifted(prompt: Any, axes: int) -> Any:
        result = right(prompt, axes).copy()
        result[:, prompt.images[0].start + 1 :] += 3 if prompt.images else 0
        return result

    return mock.patch.object(prefill, "token_positions", shifted)


@contextmanager
def nan_weight(engine: ContinuousEngine) -> Iterator[None]:
    import torch

    weight = engine.loaded.model.get_output_embeddings().weight
    with torch.no_grad():
        before, weight[5, 5] = weight[5, 5].clone(), torch.nan
        try:
            yield
        finally:
            weight[5, 5] = before


REFUSED = "the run"
# What is broken, how, and what the check has to switch off.
BREAKAGES: Mapping[str, tuple[Break, str]] = {
    "nothing": (lambda engine: nullcontext(), ""),
    "graph inputs": (stale_graph_inputs, GRAPHS),
    "attention kernel": (wrong_attention_kernel, f"{GRAPHS} and {KERNELS}"),
    "fused layers": (wrong_fused_layers, f"{GRAPHS} and {KERNELS}"),
    "pages between turns": (overwritten_pages, REUSE),
    "positions": (shifted_positions, "pages"),
    "a weight (NaN)": (nan_weight, REFUSED),
}


def check_breakage(loaded: LoadedModel, break_part: Break, expected: str) -> dict[str, Any]:
    """Check an engine with one broken part; return what was switched off, and whether that is as expected."""
    engine: Any = build_engine(loaded, None, {}, DIALOGUE_TOKENS)
    if not isinstance(engine, ContinuousEngine):
        raise SetupError(f"no engine with a KV cache can be built on {loaded.model.device}")
    parts = {" and ".join(parts) for parts in engine.scheduler.fallbacks}
    if expected.startswith(GRAPHS) and expected not in parts:
        engine.release()
        return {"switched off": "absent", "as expected": "absent"}
    started_at = time.perf_counter()
    record: dict[str, Any] = {"caveats": []}
    with break_part(engine), mock.patch.object(start_check, "MAX_SECONDS", math.inf):
        try:
            engine, record = start_check.check_start(
                engine, partial(plain_engine, loaded, None, {})
            )
            caveats = [line.removeprefix("start check: ") for line in record["caveats"]]
            found = caveats[0].partition(" off: ")[0] if caveats else ""
        except SetupError as error:
            found, record["caveats"] = REFUSED, [str(error)]
    seconds = time.perf_counter() - started_at
    engine.release()
    return {
        "switched off": found or "nothing",
        "as expected": "yes" if found == expected else "no",
        "difference": record.get("difference"),
        "tolerance": record.get("tolerance"),
        "seconds": round(seconds, 2),
        "caveat": "; ".join(record["caveats"]) or None,
    }


@click.command()
@OUTPUT
@click.option("--model", default="Qwen/Qwen3-VL-8B-Instruct", show_default=True)
@click.option("--device", default="cuda", show_default=True)
def main(output: Path | None, model: str, device: str) -> None:
    """Check a sound engine, then one with each part broken; exit with 1 if a result is not as expected."""
    started_at = time.perf_counter()
    pretrained = random_model(model, device)
    loaded = open_model(model, pretrained=pretrained)
    summary = model_summary(pretrained, model)
    summary["loading_seconds"] = round(time.perf_counter() - started_at, 1)
    rows: dict[str, dict[str, Any]] = {}
    for name, (break_part, expected) in BREAKAGES.items():
        rows[name] = check_breakage(loaded, break_part, expected)
        columns = ["switched off", "as expected", "difference", "tolerance", "seconds", "caveat"]
        cells = [[broken, *map(row.get, columns)] for broken, row in rows.items()]
        lines = [f"render_agent {__version__}.", "", json.dumps(summary), ""]
        lines += table(["broken", *columns], cells)
        publish(output, "Start check", lines, machine())
    if any(row["as expected"] == "no" for row in rows.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
