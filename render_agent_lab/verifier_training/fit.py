"""Training: each member on its own data order, all of them in one pass."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from render_agent.errors import SetupError
from render_agent_lab.learned_verifier.ensemble import Ensemble
from render_agent_lab.learned_verifier.shape import Shape
from render_agent_lab.verifier_training.batches import Integers, Prepared
from render_agent_lab.verifier_training.choice_accuracy import choose_prepared
from render_agent_lab.verifier_training.examples import Example
from render_agent_lab.verifier_training.loss import losses

MOST_GRADIENT = 1.0
"""The longest gradient of a member; a longer one is cut to it, by each member for itself."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How to train: members, epochs, states in a batch, the highest rate, decay of weights, the seed.

    The rate rises over the first `warm_up` share of all steps, and falls as a cosine to 0.
    """

    members: int = 3
    epochs: int = 10
    batch: int = 32
    rate: float = 3e-4
    decay: float = 0.01
    warm_up: float = 0.1
    seed: int = 0

    def to_json(self) -> dict[str, float]:
        """Return the settings by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class Fitted:
    """A trained ensemble, and a line an epoch: its number, each member's mean loss, and its choices."""

    ensemble: Ensemble
    epochs: list[dict[str, Any]]


def fit(
    shape: Shape,
    examples: Sequence[Example],
    held_out: Sequence[Example],
    settings: Settings,
    *,
    device: str = "cpu",
    after_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Fitted:
    """Train fresh members on `examples`; after each epoch let them choose in the states held out.

    The members share nothing but the examples: each has weights and an order of its own, from the seed
    and its number. The last epoch's weights are returned; none is picked by the states held out.

    Raises:
        ValueError: An example does not fit the shape.
        SetupError: There are fewer than two examples, or the loss diverged.
    """
    if len(examples) < 2:
        raise SetupError(
            f"{len(examples)} states are too few to learn from: two are needed at least"
        )
    place = torch.device(device)
    prepared = Prepared(shape, examples, place)
    choices = [example for example in held_out if example.is_a_choice]
    unseen = Prepared(shape, choices, place) if choices else None
    parameters = {
        name: tensor.to(place, copy=True).requires_grad_()
        for name, tensor in Ensemble.fresh(
            shape, settings.members, settings.seed
        ).parameters.items()
    }
    ensemble = Ensemble(shape, parameters)
    optimiser = _optimiser(parameters, settings)
    lines = []
    for epoch in range(settings.epochs):
        loss = _epoch(ensemble, optimiser, prepared, settings, epoch)
        line: dict[str, Any] = {"epoch": epoch + 1, "loss": loss}
        if unseen:
            line |= choose_prepared(ensemble.with_tensors(torch.Tensor.detach), unseen).to_json()
        lines.append(line)
        if after_epoch:
            after_epoch(line)
    return Fitted(ensemble.with_tensors(torch.Tensor.detach), lines)


def _optimiser(parameters: dict[str, torch.Tensor], settings: Settings) -> Any:
    """Return AdamW, which treats every number by itself, and so every member; matrices alone decay."""
    decayed = {name for name in parameters if re.search(r"(?<!norm)\.weight$", name)}
    groups = [
        {"params": [parameters[name] for name in sorted(decayed)], "weight_decay": settings.decay},
        {"params": [t for n, t in parameters.items() if n not in decayed], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98))


def _epoch(
    ensemble: Ensemble,
    optimiser: Any,
    prepared: Prepared,
    settings: Settings,
    epoch: int,
) -> list[float]:
    """Train on every example once; return each member's mean loss over the epoch."""
    orders = _orders(len(prepared), settings, epoch)
    batches = max(1, orders.shape[1] // settings.batch)
    total = torch.zeros(settings.members)
    for number, chosen in enumerate(np.array_split(orders, batches, axis=1)):
        rate = settings.rate * _share(epoch * batches + number, settings.epochs * batches, settings)
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss = losses(ensemble, prepared.batch(chosen))
        loss.sum().backward()
        _cut(list(ensemble.parameters.values()))
        optimiser.step()
        total += loss.detach().cpu()
    mean: list[float] = (total / batches).tolist()
    if not all(map(math.isfinite, mean)):
        raise SetupError(
            f"training came apart in epoch {epoch + 1}: the loss is no number; lower the rate"
        )
    return mean


def _orders(count: int, settings: Settings, epoch: int) -> Integers:
    """Return each member's order of the examples in an epoch, (M, S)."""
    return np.stack(
        [
            np.random.default_rng([settings.seed, member, epoch]).permutation(count)
            for member in range(settings.members)
        ]
    )


def _share(step: int, steps: int, settings: Settings) -> float:
    """Return the share of the highest rate at a step."""
    rising = max(1.0, settings.warm_up * steps)
    if step < rising:
        return (step + 1) / (rising + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


def _cut(parameters: list[torch.Tensor]) -> None:
    """Shorten each member's gradient to MOST_GRADIENT."""
    gradients = [tensor.grad for tensor in parameters if tensor.grad is not None]
    squares = torch.stack([(g * g).reshape(len(g), -1).sum(1) for g in gradients])
    factor = (MOST_GRADIENT / (squares.sum(0).sqrt() + 1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient *= factor.reshape(-1, *[1] * (gradient.ndim - 1))
