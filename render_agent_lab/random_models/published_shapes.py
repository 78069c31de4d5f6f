"""Configurations of published models, to build them with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from render_agent.errors import SetupError


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The parameters in which the sizes of Qwen3-VL differ."""

    text: Mapping[str, Any]
    """Entries of the text configuration."""
    vision: Mapping[str, Any]
    """Entries of the vision configuration."""
    tied: bool
    mrope_section: tuple[int, int, int] = (24, 20, 20)
    initializer_range: float = 0.02
    """Standard deviation of random weights; a small model needs large ones for its output to depend on the input."""
    shortest_edge: int = 256 * 256
    longest_edge: int = 4096 * 4096


def _text(hidden: int, intermediate: int, layers: int, heads: int) -> dict[str, Any]:
    return {
        "vocab_size": 151936,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "max_position_embeddings": 262144,
    }


def _vision(
    depth: int, hidden: int, intermediate: int, out: int, deepstack: list[int]
) -> dict[str, Any]:
    return {
        "depth": depth,
        "hidden_size": hidden,
        "intermediate_size": intermediate,
        "num_heads": 16,
        "num_position_embeddings": 2304,
        "out_hidden_size": out,
        "deepstack_visual_indexes": deepstack,
    }


SMALL = "small"  # half a million weights, for machines without a GPU

# 16 million weights, as much memory as the KV cache of 32 thousand tokens (119 thousand for the 8B, 1 thousand for
# `small`), so that weights outweigh the cache of a dialogue.
MEDIUM = "medium"

# By model name; from the published config.json of each.
SHAPES: dict[str, ModelShape] = {
    SMALL: ModelShape(
        text={
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 32768,
        },
        vision={
            "depth": 3,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "num_position_embeddings": 256,
            "out_hidden_size": 64,
            "deepstack_visual_indexes": [0, 1, 2],
        },
        tied=False,
        mrope_section=(8, 4, 4),
        initializer_range=0.2,
        shortest_edge=32 * 32,
    ),
    MEDIUM: ModelShape(
        text={
            "hidden_size": 512,
            "intermediate_size": 2048,
            "num_hidden_layers": 4,
            "num_attention_heads": 8,
            "num_key_value_heads": 1,
            "head_dim": 64,
            "max_position_embeddings": 32768,
        },
        vision={
            "depth": 3,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 4,
            "num_position_embeddings": 256,
            "out_hidden_size": 512,
            "deepstack_visual_indexes": [0, 1, 2],
        },
        tied=False,
        mrope_section=(12, 10, 10),
        initializer_range=0.05,
        shortest_edge=32 * 32,
    ),
    "Qwen/Qwen3-VL-2B-Instruct": ModelShape(
        _text(2048, 6144, 28, 16), _vision(24, 1024, 4096, 2048, [5, 11, 17]), tied=True
    ),
    "Qwen/Qwen3-VL-4B-Instruct": ModelShape(
        _text(2560, 9728, 36, 32), _vision(24, 1024, 4096, 2560, [5, 11, 17]), tied=True
    ),
    "Qwen/Qwen3-VL-8B-Instruct": ModelShape(
        _text(4096, 12288, 36, 32), _vision(27, 1152, 4304, 4096, [8, 16, 24]), tied=False
    ),
}


def find_shape(name: str) -> ModelShape:
    """Return the shape of a model by its full name or the part after the slash. Raises SetupError if unknown."""
    shapes = [
        shape
        for shape_name, shape in SHAPES.items()
        if name in (shape_name, shape_name.split("/")[-1])
    ]
    if not shapes:
        raise SetupError(
            f"unknown model shape {name}. Use one of {', '.join(SHAPES)}, or a folder with a model's files (weights not needed)."
        )
    return shapes[0]
