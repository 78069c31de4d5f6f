"""Ensemble: scores N candidate histories of one state with M members in one pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, stack_module_state, vmap

from render_agent_lab.learned_verifier.history import Histories
from render_agent_lab.learned_verifier.network import MemberNetwork, extract, shared_moves
from render_agent_lab.learned_verifier.shape import Features, VerifierShape

FloatArray = NDArray[np.float32]

# Stacked tensors (M, ...) float32 by parameter name of `MemberNetwork`.
Parameters = Mapping[str, torch.Tensor]


class Ensemble:
    """M independent members of one shape with stacked parameters."""

    def __init__(
        self, shape: VerifierShape, parameters: Parameters, network: MemberNetwork | None = None
    ) -> None:
        self.shape = shape
        self.parameters = parameters
        if network is None:
            with torch.device("meta"):
                network = MemberNetwork(shape)
        self.network = network

    @classmethod
    def fresh(cls, shape: VerifierShape, members: int, seed: int) -> Ensemble:
        """Return untrained members. Each depends only on the seed and its index."""
        networks = [MemberNetwork(shape) for _ in range(members)]
        for number, network in enumerate(networks):
            network.initialise(torch.Generator().manual_seed(seed * 1_000_003 + number))
        parameters, _ = stack_module_state(networks)
        return cls(shape, {name: tensor.detach() for name, tensor in parameters.items()})

    @property
    def members(self) -> int:
        """The number of members."""
        return int(self.parameters["log_scale"].shape[0])

    @property
    def device(self) -> torch.device:
        """The device of the parameters."""
        return self.parameters["log_scale"].device

    def to(self, device: str) -> Ensemble:
        """Return a copy on another device."""
        return self.with_tensors(lambda tensor: tensor.to(device))

    def member(self, number: int) -> Ensemble:
        """Return one member as an ensemble of one."""
        return self.with_tensors(lambda tensor: tensor[number : number + 1])

    def with_tensors(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Ensemble:
        """Return a copy with `change` applied to every tensor."""
        parameters = {name: change(tensor) for name, tensor in self.parameters.items()}
        return Ensemble(self.shape, parameters, self.network)

    def embed(
        self,
        contexts: tuple[torch.Tensor, torch.Tensor] | None = None,
        histories: tuple[torch.Tensor, torch.Tensor] | None = None,
        *,
        shared: int = 0,
        # True if each member has its own inputs, with the members as the first axis
        has_own_inputs: bool = False,
    ) -> tuple[torch.Tensor, ...]:
        """Compute the embeddings of all members, with the members as the first axis."""

        def embed_member(parameters: Parameters, *inputs: Any) -> Any:
            return functional_call(self.network, dict(parameters), (*inputs, shared))

        along = [
            0 if has_own_inputs and inputs is not None else None for inputs in (contexts, histories)
        ]
        embeddings: tuple[torch.Tensor, ...] = vmap(embed_member, in_dims=(0, *along))(
            dict(self.parameters), contexts, histories
        )
        return embeddings

    def score(self, features: Features, histories: Histories) -> FloatArray:
        """Score how well each candidate fits the state.

        Scores are comparable only within one member and one state. Everything shared is computed once: the parameter-free
        part for all members, the image-and-text branch per member, and the moves that all histories have in common.
        """
        patches, text, values, known = self.tensors(features, histories)
        with torch.inference_mode():
            context, moves = self.embed(
                extract(self.shape, patches, text),
                (values, known),
                shared=shared_moves(values, known),
            )
            scores: FloatArray = (context * moves).sum(-1).cpu().numpy()
        return scores

    def tensors(self, features: Features, histories: Histories) -> tuple[torch.Tensor, ...]:
        """Return patches (1, P, D), text (1, T, D), values (N, H, A) and known (N, H) as tensors.

        Raises ValueError if sizes do not match the shape.
        """
        features.check(self.shape)
        expected_size = (self.shape.history, self.shape.action)
        if histories.values.shape[1:] != expected_size:
            raise ValueError(
                f"expected moves of shape {expected_size}, not {histories.values.shape[1:]}"
            )
        arrays = (features.patches[None], features.text[None], histories.values, histories.known)
        return tuple(torch.as_tensor(array, device=self.device) for array in arrays)


def stored_name(name: str) -> str:
    """Return the name of a parameter in the weights file."""
    return re.sub(r"\.(blocks|layers)\.", ".", name).replace("norm.weight", "norm.gain")


def torch_device(device: str) -> str:
    """Resolve a `--device` value to a torch device name."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
