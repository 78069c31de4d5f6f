"""The shapes of published models, so that one can be built with random weights where there are none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from render_agent.errors import SetupError


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a Qwen3-VL differs from size to size.

    text, vision: as its configuration names them. initializer_range: the spread of random weights;
    wide ones make so small a model's output depend on what it is shown.
    """

    text: Mapping[str, Any]
    vision: Mapping[str, Any]
    tied: bool
    mrope_section: tuple[int, int, int] = (24, 20, 20)
    initializer_range: float = 0.02
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


SMALL = "small"
"""A model of half a million weights, for machines without a GPU."""

MEDIUM = "medium"
"""A model of 16 million weights, which outweigh what a dialogue keeps: 32 thousand tokens' keys and values
take as much as they (119 thousand tokens' for the 8B, 1 thousand for `small`)."""

SHAPES: dict[str, Shape] = {
    SMALL: Shape(
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
    MEDIUM: Shape(
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
    "Qwen/Qwen3-VL-2B-Instruct": Shape(
        _text(2048, 6144, 28, 16), _vision(24, 1024, 4096, 2048, [5, 11, 17]), tied=True
    ),
    "Qwen/Qwen3-VL-4B-Instruct": Shape(
        _text(2560, 9728, 36, 32), _vision(24, 1024, 4096, 2560, [5, 11, 17]), tied=True
    ),
    "Qwen/Qwen3-VL-8B-Instruct": Shape(
        _text(4096, 12288, 36, 32), _vision(27, 1152, 4304, 4096, [8, 16, 24]), tied=False
    ),
}
"""Shapes by the model's name. Source: the published config.json of each."""


def find_shape(name: str) -> Shape:
    """Return the shape of a model by its name, or the end of its name. SetupError where none is known."""
    shapes = [shape for known, shape in SHAPES.items() if name in (known, known.split("/")[-1])]
    if not shapes:
        raise SetupError(
            f"no shape of {name} is known: name one of {', '.join(SHAPES)}, or a directory with all files of a model but its weights"
        )
    return shapes[0]
