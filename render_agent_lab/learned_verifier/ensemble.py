"""The ensemble: N candidate histories of one state, scored by M members in one pass."""

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
from render_agent_lab.learned_verifier.shape import Features, Shape

FloatArray = NDArray[np.float32]

Parameters = Mapping[str, torch.Tensor]
"""Tensors of all members by name, (M, …) float32, as `MemberNetwork` has them."""


class Ensemble:
    """M independent members of one shape, their parameters stacked.

    network: what is called with the parameters of each member; it has none of its own.
    """

    def __init__(
        self, shape: Shape, parameters: Parameters, network: MemberNetwork | None = None
    ) -> None:
        self.shape = shape
        self.parameters = parameters
        if network is None:
            with torch.device("meta"):
                network = MemberNetwork(shape)
        self.network = network

    @classmethod
    def fresh(cls, shape: Shape, members: int, seed: int) -> Ensemble:
        """Return members that have learned nothing: each member's own, from the seed and its number alone."""
        networks = [MemberNetwork(shape) for _ in range(members)]
        for number, network in enumerate(networks):
            network.initialise(torch.Generator().manual_seed(seed * 1_000_003 + number))
        stacked, _ = stack_module_state(networks)
        return cls(shape, {name: tensor.detach() for name, tensor in stacked.items()})

    @property
    def members(self) -> int:
        """The number of members."""
        return int(self.parameters["log_scale"].shape[0])

    @property
    def device(self) -> torch.device:
        """Where the parameters lie."""
        return self.parameters["log_scale"].device

    def to(self, device: str) -> Ensemble:
        """Return the same on another device."""
        return self.with_tensors(lambda tensor: tensor.to(device))

    def member(self, number: int) -> Ensemble:
        """Return one member as an ensemble of one."""
        return self.with_tensors(lambda tensor: tensor[number : number + 1])

    def with_tensors(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Ensemble:
        """Return the same with every tensor changed."""
        changed = {name: change(tensor) for name, tensor in self.parameters.items()}
        return Ensemble(self.shape, changed, self.network)

    def embed(
        self,
        contexts: tuple[torch.Tensor, torch.Tensor] | None = None,
        histories: tuple[torch.Tensor, torch.Tensor] | None = None,
        *,
        shared: int = 0,
        own: bool = False,
    ) -> tuple[torch.Tensor, ...]:
        """Return the embeddings of each member's network, with the members as first axis.

        own: whether the members have inputs of their own, with the members as first axis; else all have
        the same.
        """

        def embed_member(parameters: Parameters, *inputs: Any) -> Any:
            return functional_call(self.network, dict(parameters), (*inputs, shared))

        along = [0 if own and inputs is not None else None for inputs in (contexts, histories)]
        embeddings: tuple[torch.Tensor, ...] = vmap(embed_member, in_dims=(0, *along))(
            dict(self.parameters), contexts, histories
        )
        return embeddings

    def score(self, features: Features, histories: Histories) -> FloatArray:
        """Return how well each candidate fits the state, (M, N) float32: cosines.

        They compare within one member and one state only. Every part is computed once: what no member
        learned for all of them, the image-and-text branch a member, and the moves that all histories
        share. ValueError where sizes do not fit.
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
        """Return patches (1, P, D), text (1, T, D), values (N, H, A) and known (N, H).

        ValueError where sizes do not fit.
        """
        features.check(self.shape)
        wanted = (self.shape.history, self.shape.action)
        if histories.values.shape[1:] != wanted:
            raise ValueError(f"moves of {wanted} are needed, not {histories.values.shape[1:]}")
        arrays = (features.patches[None], features.text[None], histories.values, histories.known)
        return tuple(torch.as_tensor(array, device=self.device) for array in arrays)


def stored_name(name: str) -> str:
    """Return the name of a parameter in the file of a trained verifier."""
    return re.sub(r"\.(blocks|layers)\.", ".", name).replace("norm.weight", "norm.gain")


def place_of(device: str) -> str:
    """Return the name of torch's device for a `--device`."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
