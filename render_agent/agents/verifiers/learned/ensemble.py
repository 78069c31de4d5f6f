"""The ensemble: N candidate histories of one state, scored by M members in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from render_agent.agents.verifiers.learned.context import embed_context, extract
from render_agent.agents.verifiers.learned.features import Features
from render_agent.agents.verifiers.learned.history import Histories
from render_agent.agents.verifiers.learned.parameters import Parameters, initial, member
from render_agent.agents.verifiers.learned.shape import Shape
from render_agent.agents.verifiers.learned.tower import embed_histories, shared_moves

FloatArray = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """M independent members of one shape, their parameters stacked."""

    shape: Shape
    parameters: Parameters

    @classmethod
    def fresh(cls, shape: Shape, members: int, seed: int) -> Ensemble:
        """Return members that have learned nothing, each with weights of its own."""
        return cls(shape, initial(shape, members, seed))

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
        return Ensemble(self.shape, {name: t.to(device) for name, t in self.parameters.items()})

    def embed(self, features: Features, histories: Histories) -> tuple[FloatArray, FloatArray]:
        """Return the embeddings of one state and of its candidates: (M, W) and (M, N, W), length 1.

        Every part is computed once: what no member learned for all of them, the image-and-text branch
        a member, and the moves that all histories share. ValueError where sizes do not fit.
        """
        patches, text, values, known = self._tensors(features, histories)
        with torch.inference_mode():
            tokens = tuple(x[None] for x in extract(self.shape, patches, text))
            context = embed_context(self.shape, self.parameters, tokens)[:, 0]
            moves = embed_histories(
                self.shape,
                self.parameters,
                values[None],
                known[None],
                shared=shared_moves(values, known),
            )
        return context.cpu().numpy(), moves.cpu().numpy()

    def score(self, features: Features, histories: Histories) -> FloatArray:
        """Return how well each candidate fits the state, (M, N) float32: cosines.

        They compare within one member and one state only. ValueError where sizes do not fit.
        """
        context, moves = self.embed(features, histories)
        scores: FloatArray = np.einsum("mw,mnw->mn", context, moves)
        return scores

    def _tensors(self, features: Features, histories: Histories) -> tuple[torch.Tensor, ...]:
        """Return patches (1, P, D), text (1, T, D), values (N, H, A) and known (N, H)."""
        features.check(self.shape)
        wanted = (self.shape.history, self.shape.action)
        if histories.values.shape[1:] != wanted:
            raise ValueError(f"moves of {wanted} are needed, not {histories.values.shape[1:]}")
        arrays = (features.patches[None], features.text[None], histories.values, histories.known)
        return tuple(torch.as_tensor(array, device=self.device) for array in arrays)


def score_one_by_one(ensemble: Ensemble, features: Features, histories: Histories) -> FloatArray:
    """Return what `Ensemble.score` does, everything anew for every history and member."""
    patches, text, values, known = ensemble._tensors(features, histories)
    return _by_member(
        ensemble,
        lambda one: torch.cat(
            [
                _pairs(ensemble.shape, one, patches, text, values[n : n + 1], known[n : n + 1])
                for n in range(len(values))
            ]
        ),
    )


def score_repeated(ensemble: Ensemble, features: Features, histories: Histories) -> FloatArray:
    """Return what `Ensemble.score` does, one batch a member, the view repeated for every history."""
    patches, text, values, known = ensemble._tensors(features, histories)

    def batch(one: Parameters) -> torch.Tensor:
        views, texts = (x.repeat(len(values), 1, 1) for x in (patches, text))
        return _pairs(ensemble.shape, one, views, texts, values, known)

    return _by_member(ensemble, batch)


def _by_member(ensemble: Ensemble, score: Callable[[Parameters], torch.Tensor]) -> FloatArray:
    with torch.inference_mode():
        scores = [score(member(ensemble.parameters, number)) for number in range(ensemble.members)]
    found: FloatArray = torch.stack(scores).cpu().numpy()
    return found


def _pairs(
    shape: Shape,
    p: Parameters,
    patches: torch.Tensor,
    text: torch.Tensor,
    values: torch.Tensor,
    known: torch.Tensor,
) -> torch.Tensor:
    """Return the cosines of B views with B histories for one member, (B,), by the plain formulas."""
    tokens = tuple(x[None] for x in extract(shape, patches, text))
    context = embed_context(shape, p, tokens, folded=False)[0]
    moves = embed_histories(shape, p, values[None], known[None])[0]
    return (context * moves).sum(-1)


def place_of(device: str) -> str:
    """Return where tensors lie for a `--device`."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"
