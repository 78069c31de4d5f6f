"""Engine options of `--engine transformers`, which are checked before the weights are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from render_agent.engines.engine_options import SAMPLING_OPTIONS, check_engine_options
from render_agent.engines.families.model_families import check_family_options, families
from render_agent.util.safe_parse import Count

# Types of the engine options. `memory_fraction` is the share of the memory that stays free.
OPTIONS = {
    **{name: Count for family in families() for name in family.options},
    **SAMPLING_OPTIONS,
    "attn_implementation": str,
    "device_map": Any,
    "quantization": Literal["4bit", "8bit"],
    "memory_fraction": Annotated[float, Meta(ge=0, lt=1)],
    "most_rows": Annotated[int, Meta(ge=1)],
    "reuse": Literal["keys", "none"],
}

MOST_ROWS = 256  # with more rows per batch, too many wait for a single long reply


def check_options(options: Mapping[str, Any], model_type: str) -> None:
    """Check the engine options for a model."""
    check_values(options)
    check_family_options(options, model_type)


def check_values(options: Mapping[str, Any]) -> None:
    """Raise UsageError if an engine option does not exist for any model, or its value is not valid."""
    check_engine_options(options, OPTIONS, "transformers")


def position_limit(config: Any) -> int | None:
    """Return the maximum number of tokens of a dialogue, or None if the configuration does not define it."""
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(limit) if limit else None


def most_rows(options: Mapping[str, Any], device: Any, on_a_cpu: int) -> int:
    """Return the maximum number of rows per batch on a device, if they fit in memory."""
    return int(options.get("most_rows", on_a_cpu if device.type == "cpu" else MOST_ROWS))
