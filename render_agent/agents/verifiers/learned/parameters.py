"""The parameters of an ensemble: every tensor has the members as its first axis."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from render_agent.agents.verifiers.learned.shape import Shape

Parameters = Mapping[str, torch.Tensor]
"""Tensors by name, (M, …) float32; a weight is (M, out, in)."""

FIRST_TEMPERATURE = 0.07

POOLINGS = ("seen", "asked")
"""What each attention pooling reads: patches as the text asks for them, and the text itself."""


def sizes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Return the shape of every parameter of one member, in a fixed order."""
    width, inner = shape.width, shape.inner
    found: dict[str, tuple[int, ...]] = {"log_scale": ()}

    def linear(name: str, wide: int, narrow: int) -> None:
        found[f"{name}.weight"] = (wide, narrow)
        found[f"{name}.bias"] = (wide,)

    def norm(name: str) -> None:
        found[f"{name}.gain"] = (width,)
        found[f"{name}.bias"] = (width,)

    def feed_forward(name: str) -> None:
        norm(f"{name}.norm")
        linear(f"{name}.up", inner, width)
        linear(f"{name}.down", width, inner)

    for pooling in POOLINGS:
        found[f"{pooling}.query"] = (width,)
        for block in range(shape.blocks):
            name = f"{pooling}.{block}"
            norm(f"{name}.norm")
            linear(f"{name}.query", width, width)
            # a bias of the keys would add the same to every logit of a softmax: there is none
            found[f"{name}.key.weight"] = (width, shape.features)
            linear(f"{name}.value", width, shape.features)
            linear(f"{name}.out", width, width)
            feed_forward(f"{name}.then")
        norm(f"{pooling}.norm")
    linear("context", width, len(POOLINGS) * width)
    linear("move", width, shape.action)
    found["positions"] = (shape.history, width)
    for layer in range(shape.layers):
        name = f"tower.{layer}"
        norm(f"{name}.norm")
        linear(f"{name}.qkv", 3 * width, width)
        linear(f"{name}.out", width, width)
        feed_forward(f"{name}.then")
    norm("tower.norm")
    linear("moves", width, width)
    return found


def initial(shape: Shape, members: int, seed: int) -> dict[str, torch.Tensor]:
    """Return parameters to begin with: each member's own, from the seed and its number alone."""
    each = [_member(shape, seed, member) for member in range(members)]
    return {name: torch.stack([one[name] for one in each]) for name in each[0]}


def _member(shape: Shape, seed: int, member: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed * 1_000_003 + member)
    depth = {"seen": shape.blocks, "asked": shape.blocks, "tower": shape.layers}
    found = {}
    for name, size in sizes(shape).items():
        kind = name.rpartition(".")[2]
        if name == "log_scale":
            tensor = torch.tensor(-math.log(FIRST_TEMPERATURE))
        elif kind == "gain":
            tensor = torch.ones(size)
        elif kind == "bias":
            tensor = torch.zeros(size)
        elif kind == "weight":
            tensor = torch.randn(size, generator=generator) * size[-1] ** -0.5
            if name.endswith((".out.weight", ".down.weight")):
                # many blocks add to one sum: each begins the smaller
                tensor *= (2 * depth[name.partition(".")[0]]) ** -0.5
        else:
            tensor = torch.randn(size, generator=generator) * (0.02 if name == "positions" else 1)
        found[name] = tensor
    return found


def member(parameters: Parameters, number: int) -> dict[str, torch.Tensor]:
    """Return the parameters of one member, as an ensemble of one."""
    return {name: tensor[number : number + 1] for name, tensor in parameters.items()}
