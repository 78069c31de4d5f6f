"""The verifier that was trained on run logs: an ensemble that reads the view, the question and the moves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from render_agent.agents.verifiers.base import TurnContext, Verdict, Verifier
from render_agent.dialogue.state import Candidate
from render_agent_lab.learned_verifier.card import encoder_told
from render_agent_lab.learned_verifier.checkpoint import load
from render_agent_lab.learned_verifier.encoder import Encoder, EncoderInput, FeatureCache
from render_agent_lab.learned_verifier.encoder_registry import check_encoder, make_encoder
from render_agent_lab.learned_verifier.ensemble import Ensemble, place_of
from render_agent_lab.learned_verifier.history import read_histories


class LearnedVerifier(Verifier):
    """Scores moves without drawing them, from the current view, the question and the moves so far.

    The features of a view and a question are made once, and all histories of a state go through all
    members in one pass. Members are independent: their scores are rows of their own.
    """

    def __init__(self, ensemble: Ensemble, encoder: Encoder, name: str = "learned") -> None:
        self.name = name
        self.members = tuple(f"member {number + 1}" for number in range(ensemble.members))
        self.ensemble = ensemble
        self.encoder = encoder
        self._readers: dict[object, FeatureCache] = {}

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return how well each candidate fits the state, (M, K): cosines; NaN where nothing is shown.

        RunLogError where the picture of a view cannot be read.
        """
        glimpse = EncoderInput.of(context)
        if glimpse is None:
            nothing = np.full((self.ensemble.members, len(candidates)), np.nan)
            return Verdict(nothing, ("nothing is shown here",) * len(candidates))
        reader = self._reader(context)
        (features,) = reader.features([(glimpse, context.state.question)])
        histories = read_histories(context, candidates, self.ensemble.shape.history)
        return Verdict(self.ensemble.score(features, histories).astype(np.float64))

    def close(self) -> None:
        """Forget the features."""
        self._readers.clear()

    def _reader(self, context: TurnContext) -> FeatureCache:
        """Return the features of the context's run; names of pictures mean something within it only."""
        # kept in the value, so that what identifies it is not given to another in the meantime
        reader = self._readers.get(context.picture)
        if reader is None:
            self._readers.clear()  # runs come one after the other
            reader = self._readers[context.picture] = FeatureCache(self.encoder, context.picture)
        return reader


def load_verifier(folder: Path, device: str = "auto", name: str = "learned") -> LearnedVerifier:
    """Return the verifier in a folder that `train-verifier` wrote, with the encoder that it needs.

    SetupError where it holds none, or the encoder is not at hand or is another one.
    """
    ensemble, learned = load(folder, place_of(device))
    encoder_card = encoder_told(folder, learned)
    encoder = make_encoder(encoder_card["label"], device)
    check_encoder(encoder, encoder_card)
    return LearnedVerifier(ensemble, encoder, name)
