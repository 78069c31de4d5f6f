"""What each token of a question finds among the patches of a view; nothing here is learned."""

from __future__ import annotations

import torch
from torch.nn import functional

from render_agent.agents.verifiers.learned.shape import Shape

TEMPERATURE = 0.07
"""How sharply a text token picks its patches; a constant of the design, not learned."""


def positions(rows: int, columns: int, features: int) -> torch.Tensor:
    """Return sines and cosines of the places of patches, (rows · columns, features).

    The first half of the features tells the row, the second the column.
    """
    quarter = features // 4
    rates = 10_000.0 ** (-torch.arange(quarter, dtype=torch.float32) / quarter)

    def along(count: int) -> torch.Tensor:
        angles = torch.arange(count, dtype=torch.float32)[:, None] * rates
        return torch.cat([angles.sin(), angles.cos()], 1)

    down, across = along(rows), along(columns)
    return torch.cat([down.repeat_interleave(columns, 0), across.repeat(rows, 1)], 1)


def extract(
    shape: Shape, patches: torch.Tensor, text: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what each text token finds in the picture, and the text: both (B, T, D).

    patches (B, P, D), text (B, T, D). A token looks where the patches are like it: the softmax of
    their cosines over TEMPERATURE weighs the patches with their places. Cosines, since the features
    of an encoder are long enough to make a choice of one patch out of every softmax. It is the same
    for all members.
    """
    place = positions(shape.rows, shape.columns, shape.features).to(patches.device)
    unit_text, unit_patches = (functional.normalize(x, dim=-1) for x in (text, patches))
    likeness = unit_text @ unit_patches.transpose(1, 2) / TEMPERATURE
    seen = likeness.softmax(-1) @ (_standardised(patches) + place)
    return _standardised(seen), _standardised(text)


def _standardised(x: torch.Tensor) -> torch.Tensor:
    """Return x (…, D) with mean 0 and variance 1 along its last axis."""
    return functional.layer_norm(x, x.shape[-1:])
