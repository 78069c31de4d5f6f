"""Chooses how to run a model: reusing the KV cache, or without reuse.

For the KV cache, it measures the memory that prefill needs, and leaves the rest to the cache.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from render_agent.dialogue import chat
from render_agent.engines.engine import Request
from render_agent.engines.memory.device import DeviceMemory, device_memory, measure_peak, spare
from render_agent.engines.memory.faults import Fault, attempt, attempt_with_retries
from render_agent.engines.transformers.fixed_shapes import obstacle
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.prefill import UnreadPrompt, new_cache, prefill
from render_agent.engines.transformers.start_check import (
    LocalEngine,
    check_composition,
    check_start,
)
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.engines.transformers.transformers_options import most_rows
from render_agent.errors import RunLogError, SetupError
from render_agent.util.atomic_files import atomic_write, json_bytes, read_json, user_cache
from render_agent.util.display import stage

LOG = logging.getLogger(__name__)

FREE_FRACTION = 0.1  # share of the memory that stays free, for fragmentation and underestimates
MEAN_SHARE = 0.6  # mean length of a dialogue relative to one that uses all its turns
MAX_CPU_ROWS = 64  # more rows bring no gain on a CPU

# Images in the two prompts that are prefilled to measure memory; on a GPU, the larger has about as many as one call.
GPU_PROBE_IMAGES = {"cuda": (4, 20)}
PROBE_IMAGES = (1, 4)  # on other devices

# Share of the memory outside the budget, for CUDA graphs and for calls that need more than the measured ones.
RESERVE_FRACTION = {"cuda": 0.05}
PREFILL_FRACTION = 0.25  # share of the available memory that prefill may use
MAX_PREFILL_TOKENS = 8192  # tokens per call; longer calls are not faster per token


def build_engine(
    loaded: LoadedModel,
    batch_size: int | None,  # maximum number of rows; None for as many as fit in memory
    options: Mapping[str, Any],
    tokens: int,
    memory: DeviceMemory | None = None,
    image_size: tuple[int, int] = (640, 480),  # width and height of the images in pixels
    reproducible: bool = False,
) -> TransformersEngine | ContinuousEngine:
    """Build the best engine for a model. All engines give the same replies.

    Raises SetupError if replies are to be reproducible, but cannot be with this model or on this device.
    """
    family = loaded.inputs.family
    reuse = options.get("reuse", family.reuse)
    memory, device = memory or device_memory(loaded.model), loaded.model.device
    if reproducible:
        why = f"it needs reuse=keys, not {reuse}" if reuse != "keys" else None
        if why := why or obstacle(loaded.model, family):
            raise SetupError(f"--reproducible on does not work with this model: {why}")
    if reuse == "keys":
        fraction = float(options.get("memory_fraction", FREE_FRACTION))

        def build() -> ContinuousEngine:
            budget, read_tokens = divide_memory(loaded, memory, fraction, image_size)
            return ContinuousEngine(
                loaded,
                budget=budget,
                most_rows=batch_size or most_rows(options, device, MAX_CPU_ROWS),
                dialogue_tokens=round(MEAN_SHARE * tokens),
                read_tokens=read_tokens,
                reproducible=reproducible,
            )

        engine = attempt_with_retries(build, device)
        if not isinstance(engine, Fault):
            # Predetermined replies belong to the questions of a benchmark.
            if reproducible and loaded.script is None:
                _require_composition(engine)
            return engine
        if reproducible:
            raise SetupError(f"--reproducible on needs the KV cache: {engine.reason}")
        LOG.warning("the KV cache is not reused between turns: %s", engine.reason)
    elif family.why:
        LOG.info("the KV cache is not reused between turns: %s", family.why)
    return plain_engine(loaded, batch_size, options)


def plain_engine(
    loaded: LoadedModel,
    batch_size: int | None,
    options: Mapping[str, Any],
    single: bool = False,  # one row per call
) -> TransformersEngine:
    """Build an engine without the KV cache."""
    return TransformersEngine(loaded, batch_size=1 if single else batch_size, options=options)


def build_checked_engine(
    conditions: Mapping[str, Any] | None,  # what the start check depends on; None for no check
    loaded: LoadedModel,
    batch_size: int | None,
    options: Mapping[str, Any],
    tokens: int,
    **more: Any,
) -> LocalEngine:
    """Build an engine like `build_engine`, without the parts that fail the start check.

    A complete check that passed is cached on disk by its conditions. Raises SetupError also if the model returns NaN.
    """
    engine: LocalEngine = build_engine(loaded, batch_size, options, tokens, **more)
    if conditions is None:
        return engine
    file = _result_file(conditions)
    if file is not None and file.is_file():
        with suppress(RunLogError):  # a damaged file is written again
            engine.start_check = read_json(file)
            return engine
    engine, record = check_start(engine, partial(plain_engine, loaded, batch_size, options))
    engine.start_check = {**record, "device": conditions.get("device")}
    if record["caveats"]:
        LOG.warning("%s", "; ".join(record["caveats"]))
        if more.get("reproducible"):
            _require_composition(engine)
    elif file is not None and record["complete"]:
        with suppress(RunLogError):  # the check is repeated next time
            atomic_write(file, json_bytes(engine.start_check), durable=False)
    return engine


def _require_composition(engine: LocalEngine) -> None:
    """Raise SetupError if the replies of an engine depend on what shares a call."""
    why: str | None = "the KV cache is not exact"
    if isinstance(engine, ContinuousEngine):
        why = check_composition(engine)
    if why is not None:
        device = engine.loaded.model.device
        engine.close()
        raise SetupError(f"--reproducible on does not hold on {device}: {why}")


def _result_file(conditions: Mapping[str, Any]) -> Path | None:
    """Return the file of a check's result in the user's cache, named after its conditions and the engine's code."""
    folder = user_cache("start_checks")
    digest = hashlib.sha256(json_bytes(conditions))
    for file in sorted(Path(__file__).parents[1].glob("*/**/*.py")):
        digest.update(file.read_bytes())
    return None if folder is None else folder / f"{digest.hexdigest()[:32]}.json"


def fit_cost(points: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the fixed bytes of a prefill call and its bytes per token, given one or two points (tokens, bytes)."""
    (few, few_bytes), (many, many_bytes) = points[0], points[-1]
    slope = (many_bytes - few_bytes) / (many - few) if many > few else many_bytes / many
    # Because of noise, more tokens can appear to need fewer bytes.
    slope = max(slope, 1.0)
    return max(0.0, few_bytes - slope * few, many_bytes - slope * many), slope


def divide_memory(
    loaded: LoadedModel, memory: DeviceMemory, fraction: float, image_size: tuple[int, int]
) -> tuple[int, int]:
    """Return the size of the KV cache in bytes, and the tokens per prefill call of images with this size in pixels.

    A fraction of the memory stays free, which the allocator of a GPU enforces from now on.
    """
    limit_allocator(loaded.model.device, fraction)
    free = spare(memory, fraction + RESERVE_FRACTION.get(loaded.model.device.type, 0))
    with stage("measuring memory", announce=True):
        cost = _measure_cost(loaded, memory, image_size)
    if cost is None:
        # Even the smallest probe did not fit; prompts will be prefilled one at a time.
        return round((1 - PREFILL_FRACTION) * free), 1
    fixed, per_token = cost
    tokens = max(1, min(MAX_PREFILL_TOKENS, int((PREFILL_FRACTION * free - fixed) / per_token)))
    cache = max(0, round(free - fixed - per_token * tokens))
    LOG.info("prefill needs %.0f bytes and %.0f per token", fixed, per_token)
    LOG.info("%d tokens per prefill call, %d bytes for the KV cache", tokens, cache)
    return cache, tokens


def _measure_cost(
    loaded: LoadedModel, memory: DeviceMemory, image_size: tuple[int, int]
) -> tuple[float, float] | None:
    """Measure the memory of prefill with two prompts; return None if not even the first one fits."""
    points = []
    for num_images in GPU_PROBE_IMAGES.get(loaded.model.device.type, PROBE_IMAGES):
        with measure_peak(memory) as needed:
            tokens = attempt(
                partial(_prefill_probe, loaded, num_images, image_size), loaded.model.device
            )
        if isinstance(tokens, Fault):
            LOG.warning("a prompt with %d images does not fit: %s", num_images, tokens.reason)
            break
        points.append((tokens, needed[0]))
    return fit_cost(points) if points else None


def _prefill_probe(loaded: LoadedModel, num_images: int, size: tuple[int, int]) -> int:
    """Prefill a prompt with blank images; return its number of tokens."""
    images = [chat.image_piece(f"{number}.png") for number in range(num_images)]
    messages = [chat.message("user", chat.text("Look."), *images)]
    request = Request("probe", 0, messages, lambda file: Image.new("RGB", size))
    prompt = loaded.inputs.prepare(request)
    cache = new_cache(loaded)
    sequence = cache.add("probe", prompt)
    cache.reserve(sequence, 0, len(prompt.ids))
    tensors = [image.values() for image in prompt.images]
    prefill(loaded.model, cache, [UnreadPrompt(prompt, sequence, 0, tensors)], loaded.inputs.family)
    loaded.inputs.retire("probe")
    return len(prompt.ids)


def limit_allocator(device: Any, fraction: float) -> None:
    """Make PyTorch's allocator leave a fraction of a GPU's memory free, in addition to that of other processes.

    Running out of memory then raises the allocator's own error, before other libraries fail in unknown ways.
    """
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        allowed = torch.cuda.memory_reserved(device) + free - fraction * total
        torch.cuda.set_per_process_memory_fraction(min(1.0, max(0.01, allowed / total)), device)
