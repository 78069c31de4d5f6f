"""The verifier trained on run logs: an ensemble that reads the view, the question and the moves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from render_agent.agents.verifiers.verifier import TurnContext, Verdict, Verifier
from render_agent.tasks.input_files import InputFile
from render_agent.util.file_digests import digests_of, sha256

if TYPE_CHECKING:
    from render_agent.dialogue.question import Question
    from render_agent.dialogue.turn import Candidate
    from render_agent.engines.engine import Engine
    from render_agent.options import RunConfig
    from render_agent_lab.learned_verifier.encoder import Encoder, FeatureCache
    from render_agent_lab.learned_verifier.ensemble import Ensemble

# extensions of documentation files in a verifier's folder, which runs do not read
IGNORED_SUFFIXES = (".md", ".csv")


@dataclass(eq=False)
class LearnedVerifier(Verifier):
    """Scores moves without rendering them, from the current view, the question and the moves so far.

    The features of a view and a question are computed once, and all histories of a state go through all members in one
    pass. Members are independent; each contributes a row of scores.
    """

    name = "learned"
    forms = ("learned:DIR",)

    ensemble: Ensemble | None = None
    encoder: Encoder | None = None
    _readers: dict[object, FeatureCache] = field(init=False, default_factory=dict)

    @property
    def folder(self) -> Path:
        """The folder written by `train-verifier`."""
        return Path(self.argument or "")

    @property
    def members(self) -> tuple[str, ...]:
        """A name for every member of the ensemble."""
        count = self.ensemble.members if self.ensemble else 0
        return tuple(f"member {number + 1}" for number in range(count))

    def check(self, config: RunConfig, questions: Sequence[Question]) -> None:
        """Raise SetupError if the folder does not contain a verifier."""
        from render_agent_lab.learned_verifier.card import check_learned

        check_learned(self.folder)

    def inputs(self, config: RunConfig, questions: Sequence[Question]) -> Iterable[InputFile]:
        """Yield every file of the folder that a run reads."""
        for file in sorted(self.folder.iterdir()) if self.folder.is_dir() else ():
            if file.suffix not in IGNORED_SUFFIXES:
                yield InputFile("verifiers", str(file), sha256(file))

    def describe(self, config: RunConfig, questions: Sequence[Question]) -> dict[str, Any]:
        """Return the verifier's privileged information: the scenes it was trained on.

        Raises SetupError if the folder does not contain a verifier or a scan cannot be read.
        """
        from render_agent_lab.learned_verifier.card import read_card

        training_scenes = read_card(self.folder)["learned"].get("learned_from", {}).get("scans", ())
        scans = digests_of({question.scan for question in questions if question.scan is not None})
        num_training = sum(digest in training_scenes for digest in scans.values())
        summary = f"{num_training} of these {len(scans)} scenes, from training"
        return {"knows": summary if num_training else None}

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        """Return the verifier with its weights. Raises SetupError if the folder has none."""
        return self.load_weights(config.device)

    def load_weights(self, device: str = "auto") -> Self:
        """Return the verifier with its weights and encoder.

        Raises SetupError if the folder has no verifier, or if its encoder is unavailable or has changed.
        """
        from render_agent_lab.learned_verifier.card import encoder_record
        from render_agent_lab.learned_verifier.checkpoint import load
        from render_agent_lab.learned_verifier.encoder_registry import check_encoder, make_encoder
        from render_agent_lab.learned_verifier.ensemble import torch_device

        ensemble, card = load(self.folder, torch_device(device))
        encoder_card = encoder_record(self.folder, card)
        encoder = make_encoder(encoder_card["label"], device)
        check_encoder(encoder, encoder_card)
        return replace(self, ensemble=ensemble, encoder=encoder)

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the cosine similarity of each candidate to the state, (M, K); NaN if nothing is shown."""
        from render_agent_lab.learned_verifier.encoder import EncoderInput
        from render_agent_lab.learned_verifier.history import read_histories

        assert self.ensemble is not None, "the verifier is open"
        view_input = EncoderInput.of(context)
        if view_input is None:
            no_scores = np.full((self.ensemble.members, len(candidates)), np.nan)
            return Verdict(no_scores, ("nothing is shown here",) * len(candidates))
        (features,) = self._reader(context).features([(view_input, context.state.question)])
        histories = read_histories(context, candidates, self.ensemble.shape.history)
        return Verdict(self.ensemble.score(features, histories).astype(np.float64))

    def close(self) -> None:
        self._readers.clear()

    def _reader(self, context: TurnContext) -> FeatureCache:
        """Return the feature cache of the context's run; image names are unique only within a run."""
        from render_agent_lab.learned_verifier.encoder import FeatureCache

        # the cache keeps a reference to its key, so that the key's identity is not reused
        reader = self._readers.get(context.load_image)
        if reader is None:
            assert self.encoder is not None, "the verifier is open"
            self._readers.clear()  # runs are processed one at a time
            reader = self._readers[context.load_image] = FeatureCache(
                self.encoder, context.load_image
            )
        return reader
