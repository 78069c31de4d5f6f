"""Trains all members in one pass, each with its own data order."""

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
from render_agent_lab.learned_verifier.shape import VerifierShape
from render_agent_lab.verifier_training.batches import Integers, PreparedExamples
from render_agent_lab.verifier_training.choice_accuracy import choose_prepared
from render_agent_lab.verifier_training.examples import Example
from render_agent_lab.verifier_training.loss import losses

MAX_GRADIENT_NORM = 1.0  # gradient norm to which each member is clipped


@dataclass(frozen=True, slots=True)
class Settings:
    """Training settings. The learning rate warms up linearly, then follows a cosine to 0."""

    members: int = 3
    epochs: int = 10
    batch: int = 32
    """States per batch."""
    rate: float = 3e-4
    """Peak learning rate."""
    decay: float = 0.01
    """Weight decay."""
    warm_up: float = 0.1
    """Share of all steps in which the learning rate rises."""
    seed: int = 0

    def to_json(self) -> dict[str, float]:
        """Return the settings by name."""
        return asdict(self)


@dataclass(frozen=True, slots=True, eq=False)
class FitResult:
    """A trained ensemble, and a record per epoch: number, mean loss of each member, and held-out accuracy."""

    ensemble: Ensemble
    epochs: list[dict[str, Any]]


def fit_ensemble(
    shape: VerifierShape,
    examples: Sequence[Example],
    held_out: Sequence[Example],
    settings: Settings,
    *,
    device: str = "cpu",
    after_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> FitResult:
    """Train new members on `examples`, and evaluate them on `held_out` after each epoch.

    The members share only the examples: weights and data order depend on the seed and the member's index. Returns the
    weights of the last epoch; held-out results are not used for selection.
    """
    if len(examples) < 2:
        raise SetupError(f"training needs at least 2 states, but there are {len(examples)}")
    place = torch.device(device)
    prepared = PreparedExamples(shape, examples, place)
    choices = [example for example in held_out if example.is_a_choice]
    unseen = PreparedExamples(shape, choices, place) if choices else None
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
    return FitResult(ensemble.with_tensors(torch.Tensor.detach), lines)


def _optimiser(parameters: dict[str, torch.Tensor], settings: Settings) -> Any:
    """Return AdamW, which is element-wise and so keeps members independent. Only matrices have weight decay."""
    decayed_names = {name for name in parameters if re.search(r"(?<!norm)\.weight$", name)}
    groups = [
        {
            "params": [parameters[name] for name in sorted(decayed_names)],
            "weight_decay": settings.decay,
        },
        {
            "params": [t for n, t in parameters.items() if n not in decayed_names],
            "weight_decay": 0.0,
        },
    ]
    return torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98))


def _epoch(
    ensemble: Ensemble, optimiser: Any, prepared: PreparedExamples, settings: Settings, epoch: int
) -> list[float]:
    """Train on every example once; return each member's mean loss."""
    orders = _orders(len(prepared), settings, epoch)
    batches = max(1, orders.shape[1] // settings.batch)
    total = torch.zeros(settings.members)
    for number, chosen in enumerate(np.array_split(orders, batches, axis=1)):
        rate = settings.rate * _rate_share(
            epoch * batches + number, settings.epochs * batches, settings
        )
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.zero_grad()
        loss = losses(ensemble, prepared.batch(chosen))
        loss.sum().backward()
        _clip_gradients(list(ensemble.parameters.values()))
        optimiser.step()
        total += loss.detach().cpu()
    mean: list[float] = (total / batches).tolist()
    if not all(map(math.isfinite, mean)):
        raise SetupError(
            f"training diverged in epoch {epoch + 1}: the loss is not finite. Lower --rate."
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


def _rate_share(step: int, steps: int, settings: Settings) -> float:
    """Return the learning rate of a step as a share of the peak."""
    rising = max(1.0, settings.warm_up * steps)
    if step < rising:
        return (step + 1) / (rising + 1)
    return 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1.0, steps - rising)))


def _clip_gradients(parameters: list[torch.Tensor]) -> None:
    """Clip each member's gradient to norm MAX_GRADIENT_NORM."""
    gradients = [tensor.grad for tensor in parameters if tensor.grad is not None]
    squares = torch.stack([(g * g).reshape(len(g), -1).sum(1) for g in gradients])
    factor = (MAX_GRADIENT_NORM / (squares.sum(0).sqrt() + 1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient *= factor.reshape(-1, *[1] * (gradient.ndim - 1))
