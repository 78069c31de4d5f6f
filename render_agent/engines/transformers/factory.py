"""Chooses how to run a model: reusing the KV cache, reusing vision features, or without reuse."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from render_agent.engines.memory.device import DeviceMemory, device_memory
from render_agent.engines.memory.faults import Fault, attempt_with_retries
from render_agent.engines.transformers.composition_check import check_composition
from render_agent.engines.transformers.fixed_shapes import obstacle
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.memory.budget import divide_memory
from render_agent.engines.transformers.memory.sizing import FREE_FRACTION
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.engines.transformers.transformers_options import most_rows
from render_agent.errors import SetupError

LOG = logging.getLogger(__name__)

MEAN_SHARE = 0.6  # mean length of a dialogue relative to one that uses all its turns
MAX_CPU_ROWS = 64  # more rows bring no gain on a CPU


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
            if reproducible and loaded.script is None and (why := check_composition(engine)):
                engine.close()
                raise SetupError(f"--reproducible on does not hold on {device}: {why}")
            return engine
        if reproducible:
            raise SetupError(f"--reproducible on needs the KV cache: {engine.reason}")
        LOG.warning("the KV cache is not reused between turns: %s", engine.reason)
    elif family.why:
        LOG.info("the KV cache is not reused between turns: %s", family.why)
    vision = None
    if reuse in ("keys", "vision") and family.vision:
        from render_agent.engines.transformers.model.vision_cache import VisionCache

        vision = VisionCache(loaded.model)
    return TransformersEngine(
        loaded, batch_size=batch_size, options=options, memory=memory, vision=vision
    )
