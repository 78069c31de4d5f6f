"""The verifier that compares the picture a move leads to with what the question names, by SigLIP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from render_agent.agents.verifiers.siglip import (
    DEFAULT_SIGLIP,
    Floats,
    Siglip,
    find_siglip,
    load_siglip,
)
from render_agent.agents.verifiers.verifier import TurnContext, Verdict, Verifier
from render_agent.dialogue.evidence import Candidate
from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine
from render_agent.options import RunConfig
from render_agent.tasks.mentions import named_categories


@dataclass(eq=False)
class EmbeddingVerifier(Verifier):
    """Scores a view by the cosine of its embedding with that of what the question names.

    Each named thing is asked for as "a photo of a …", and the best of them counts: a view that shows one
    of two things well is worth more than one that shows neither. A question that names nothing stands
    for itself.
    """

    name = "embedding"
    forms = ("embedding[:MODEL]",)
    looks = True

    model: Siglip | None = None
    _texts: dict[str, Floats] = field(init=False, default_factory=dict)

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError where its model is not at hand."""
        find_siglip(self.argument or DEFAULT_SIGLIP)

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        """Return the verifier with its model loaded. SetupError where that is not at hand."""
        return replace(self, model=load_siglip(self.argument or DEFAULT_SIGLIP, config.device))

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the cosine of each candidate, (1, K); NaN where its view was not drawn.

        All pictures of a state go through the model in one batch. EngineError where memory does not hold
        even one; RunLogError where a picture cannot be read.
        """
        assert self.model is not None, "it is open"
        files = list(dict.fromkeys(c.view.file for c in candidates if c.view))
        reasons = tuple("" if c.view else "its view was not drawn" for c in candidates)
        scores = np.full((1, len(candidates)), np.nan)
        if not files:
            return Verdict(scores, reasons)
        shown = self.model.pictures([context.picture(file) for file in files]).pooled
        asked = self._text_embeddings(self.model, context.state.question)
        likeness = (shown @ asked.T).max(1)
        by_file = dict(zip(files, likeness.tolist(), strict=True))
        for index, candidate in enumerate(candidates):
            if candidate.view:
                scores[0, index] = by_file[candidate.view.file]
        events, self.model.events = tuple(self.model.events), []
        return Verdict(scores, reasons, events=events)

    def _text_embeddings(self, model: Siglip, question: Question) -> Floats:
        """Return the embeddings of what a question asks for, (texts, W), each text encoded once."""
        texts = asked_for(question)
        fresh = [text for text in texts if text not in self._texts]
        if fresh:
            made = model.texts(fresh).pooled
            self._texts |= dict(zip(fresh, made, strict=True))
        return np.stack([self._texts[text] for text in texts])


def asked_for(question: Question) -> list[str]:
    """Return the texts that views are compared with."""
    names = named_categories(question)
    return [f"a photo of a {name}" for name in names] or [question.text]
