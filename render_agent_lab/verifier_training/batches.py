"""Converts examples to tensors and assembles a batch for every member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from render_agent_lab.learned_verifier.network import extract
from render_agent_lab.learned_verifier.shape import VerifierShape
from render_agent_lab.verifier_training.examples import Example

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """B states for each of M members, with all K candidates."""

    seen: torch.Tensor  # first result of `extract`, (M, B, T, D)
    asked: torch.Tensor  # second result of `extract`, (M, B, T, D)
    context: torch.Tensor  # (M, B); equal numbers mean the same view and question
    values: torch.Tensor  # moves, (M, K, H, A)
    known: torch.Tensor  # mask of moves, (M, K, H)
    state: torch.Tensor  # (M, K) index of the state each candidate belongs to; -1 is padding
    good: torch.Tensor  # (M, K) mask of good candidates


class PreparedExamples:
    """Examples on the device, storing each of the C distinct pairs of view and question once."""

    def __init__(
        self, shape: VerifierShape, examples: Sequence[Example], device: torch.device
    ) -> None:
        self._device = device
        distinct_features = {id(example.features): example.features for example in examples}
        index_of = {key: index for index, key in enumerate(distinct_features)}
        self._context = np.array([index_of[id(example.features)] for example in examples], np.int64)
        counts = [len(example.good) for example in examples]
        self._ends = np.cumsum(counts)
        self._begins = self._ends - counts
        for example in examples:
            if example.histories.values.shape[1:] != (shape.history, shape.action):
                raise ValueError(
                    f"expected moves of shape {(shape.history, shape.action)}, not"
                    f" {example.histories.values.shape[1:]}"
                )
        self.good = np.concatenate([example.good for example in examples])
        values = np.concatenate([example.histories.values for example in examples])
        known = np.concatenate([example.histories.known for example in examples])
        self.values, self.known = (torch.as_tensor(x, device=device) for x in (values, known))
        seen: list[torch.Tensor] = []
        questions: list[torch.Tensor] = []
        with torch.no_grad():
            for features in distinct_features.values():
                features.check(shape)
                pair = (
                    torch.as_tensor(x, device=device)[None]
                    for x in (features.patches, features.text)
                )
                for tensors, extracted in zip(
                    (seen, questions), extract(shape, *pair), strict=True
                ):
                    tensors.append(extracted[0])
        self.seen, self.asked = torch.stack(seen), torch.stack(questions)

    def __len__(self) -> int:
        return len(self._context)

    def candidates(self, example: int) -> slice:
        """Return the slice of an example's candidates in `good`, `values` and `known`."""
        return slice(int(self._begins[example]), int(self._ends[example]))

    def context(self, example: int) -> int:
        """Return the index of an example's pair of view and question."""
        return int(self._context[example])

    def batch(self, indices: Integers) -> Batch:
        """Return the batch with the given example indices, (M, B), one row per member."""
        rows, states = [], []
        for numbers in indices:
            ranges = [np.arange(self._begins[n], self._ends[n]) for n in numbers]
            rows.append(np.concatenate(ranges))
            states.append(np.repeat(np.arange(len(numbers)), list(map(len, ranges))))
        width = max(map(len, rows))
        row = np.zeros((len(rows), width), np.int64)
        state = np.full((len(rows), width), -1)
        for member, (row_indices, row_states) in enumerate(zip(rows, states, strict=True)):
            row[member, : len(row_indices)] = row_indices
            state[member, : len(row_indices)] = row_states
        good = self.good[row] & (state >= 0)
        context, rows_, state_, good_ = (
            torch.as_tensor(x, device=self._device)
            for x in (self._context[indices], row, state, good)
        )
        return Batch(
            self.seen[context],
            self.asked[context],
            context,
            self.values[rows_],
            self.known[rows_],
            state_,
            good_,
        )
