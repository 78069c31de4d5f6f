"""The engine options of `--engine transformers`, each checked before any weight is read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.engines.families.registry import FAMILIES, check_family_options
from render_agent.errors import UsageError

OPTIONS = (
    *dict.fromkeys(name for family in FAMILIES for name in family.options),
    "top_k",
    "top_p",
    "attn_implementation",
    "device_map",
    "quantization",
    "memory_fraction",
    "most_rows",
    "reuse",
    "chat_template_kwargs",
)
CHOICES = {"quantization": ("4bit", "8bit"), "reuse": ("keys", "vision", "none")}

MOST_ROWS = 256
"""Rows of a batch where memory holds more: beyond, one row that goes on for long keeps too many waiting."""


def check_options(options: Mapping[str, Any], model_type: str) -> None:
    """UsageError for an engine option or a value that does not exist; SetupError for one of another model."""
    check_values(options)
    check_family_options(options, model_type)


def check_values(options: Mapping[str, Any]) -> None:
    """UsageError for an engine option or a value that exists for no model."""
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise UsageError(
            f"--engine-option {unknown[0]} does not exist for --engine transformers: use one of"
            f" {', '.join(OPTIONS)}"
        )
    for name, choices in CHOICES.items():
        if name in options and options[name] not in choices:
            raise UsageError(f"--engine-option {name} must be one of {', '.join(choices)}")
    fraction = options.get("memory_fraction", 0)
    if not (isinstance(fraction, int | float) and 0 <= fraction < 1):
        raise UsageError("--engine-option memory_fraction, what is kept free, must be from 0 to 1")
    rows = options.get("most_rows", 1)
    if not (isinstance(rows, int) and rows > 0):
        raise UsageError("--engine-option most_rows must be a whole number above 0")
    if not isinstance(options.get("chat_template_kwargs", {}), Mapping):
        raise UsageError(
            "--engine-option chat_template_kwargs must be what the chat template takes by name, such as"
            " {enable_thinking: false}"
        )


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
