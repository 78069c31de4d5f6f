"""How a model of transformers is run: with keys and values kept, with pictures kept, or nothing kept."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from render_agent.engines.engine import Workload
from render_agent.engines.memory.device import DeviceMemory, memory_of
from render_agent.engines.memory.faults import Fault, attempt_patiently
from render_agent.engines.transformers.generate_engine import TransformersEngine
from render_agent.engines.transformers.memory.budget import divide
from render_agent.engines.transformers.memory.sizing import FREE_FRACTION
from render_agent.engines.transformers.model.load import LoadedModel
from render_agent.engines.transformers.transformers_engine import ContinuousEngine
from render_agent.engines.transformers.transformers_options import most_rows
from render_agent.options import RunConfig

LOG = logging.getLogger(__name__)

INSTRUCTIONS, FEEDBACK, USUAL_REPLY = 1000, 80, 200
"""About how many tokens the fixed text, what a turn is told, and a reply have."""

MEAN_SHARE = 0.6
"""Of the tokens that a dialogue has in the end, should it take all its turns, what it has on average."""

ROWS_ON_A_CPU = 64
"""Rows on a CPU, which gains nothing from more; on other devices as many as a batch may have."""


def engine_of(
    loaded: LoadedModel,
    batch_size: int | None,
    options: Mapping[str, Any],
    tokens: int,
    memory: DeviceMemory | None = None,
    picture_size: tuple[int, int] = (640, 480),
) -> TransformersEngine | ContinuousEngine:
    """Return the engine that runs a model best, of those whose replies are the same.

    batch_size: rows at the most; None for what memory holds. options: those of the engine; `reuse` names the way, by
    default the best that the model's family has. tokens: about how many a dialogue has in the end; so many are led
    side by side as have room then. picture_size: width and height of its pictures.
    """
    family = loaded.inputs.family
    wanted = options.get("reuse", family.reuse)
    memory, device = memory or memory_of(loaded.model), loaded.model.device
    if wanted == "keys":
        fraction = float(options.get("memory_fraction", FREE_FRACTION))

        def made() -> ContinuousEngine:
            budget, read_tokens = divide(loaded, memory, fraction, picture_size)
            return ContinuousEngine(
                loaded,
                budget=budget,
                most_rows=batch_size or most_rows(options, device, ROWS_ON_A_CPU),
                dialogue_tokens=round(MEAN_SHARE * tokens),
                read_tokens=read_tokens,
            )

        engine = attempt_patiently(made, device)
        if not isinstance(engine, Fault):
            return engine
        LOG.warning("keys and values are not kept over the turns: %s", engine.reason)
    elif family.why:
        LOG.info("keys and values are not kept over the turns: %s", family.why)
    vision = None
    if wanted in ("keys", "vision") and family.vision:
        from render_agent.engines.transformers.model.vision_cache import VisionCache

        vision = VisionCache(loaded.model)
    return TransformersEngine(
        loaded, batch_size=batch_size, options=options, memory=memory, vision=vision
    )


def dialogue_tokens(
    loaded: LoadedModel, config: RunConfig, options: Mapping[str, Any], workload: Workload
) -> int:
    """Return about how many tokens a question of a run has in the end, should it take all its turns.

    Every sample, and every wording, has its own row of the keys and values.
    """
    width, height = config.image_size
    processor = loaded.inputs.processor
    picture = loaded.inputs.family.picture_tokens(width, height, processor, options)
    reply = min(config.max_new_tokens, USUAL_REPLY)
    thought = min(config.thinking_budget or 0, USUAL_REPLY)
    tokens = (
        INSTRUCTIONS + workload.pictures * picture + config.max_turns * (reply + FEEDBACK) + thought
    )
    return tokens * workload.dialogues
