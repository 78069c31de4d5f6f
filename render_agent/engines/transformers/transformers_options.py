"""The engine options of `--engine transformers`, each checked before any weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from render_agent.engines.engine_options import SAMPLING_OPTIONS, check_engine_options
from render_agent.engines.families.model_families import FAMILIES, check_family_options
from render_agent.errors import UsageError
from render_agent.util.safe_parse import Count

OPTIONS = {
    **{name: Count for family in FAMILIES for name in family.options},
    **SAMPLING_OPTIONS,
    "attn_implementation": str,
    "device_map": Any,
    "quantization": Literal["4bit", "8bit"],
    "memory_fraction": Annotated[float, Meta(ge=0, lt=1)],
    "most_rows": Annotated[int, Meta(ge=1)],
    "reuse": Literal["keys", "vision", "none"],
}
"""The engine options, and the types of their values; memory_fraction: of the memory, what is kept free."""

MOST_ROWS = 256
"""Rows of a batch where memory holds more: beyond, one row that goes on for long keeps too many waiting."""


def check_options(options: Mapping[str, Any], model_type: str) -> None:
    """UsageError for an engine option or a value that does not exist; SetupError for one of another model."""
    check_values(options)
    check_family_options(options, model_type)


def check_values(options: Mapping[str, Any]) -> None:
    """UsageError for an engine option or a value that exists for no model."""
    check_engine_options(options, OPTIONS, "transformers")


def refuse_tensor_parallel(count: int) -> None:
    """UsageError where one model is to be shared by several GPUs that compute at once."""
    if count > 1:
        raise UsageError(
            f"--tensor-parallel {count} needs --engine vllm: within one process transformers can only"
            " lay a model over several GPUs that compute in turn, by --engine-option device_map=auto"
        )


def position_limit(config: Any) -> int | None:
    """Return how many tokens a model can read and write in one dialogue, None where it does not say."""
    limit = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(limit) if limit else None


def most_rows(options: Mapping[str, Any], device: Any, on_a_cpu: int) -> int:
    """Return the most rows of a batch on a device, where memory holds more."""
    return int(options.get("most_rows", on_a_cpu if device.type == "cpu" else MOST_ROWS))
