"""The verifier that compares the view of a candidate with the objects in the question, using SigLIP embeddings."""

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
from render_agent.dialogue.question import Question
from render_agent.dialogue.turn import Candidate
from render_agent.engines.engine import Engine
from render_agent.options import RunConfig
from render_agent.tasks.question_types import named_categories


@dataclass(eq=False)
class EmbeddingVerifier(Verifier):
    """Scores a view by the cosine similarity of its embedding to the objects named in the question.

    Each object is embedded as "a photo of a …". The score is the maximum over objects, so a view that shows one of
    two objects well beats a view that shows neither. If the question names no object, its text is embedded.
    """

    name = "embedding"
    forms = ("embedding[:MODEL]",)
    needs_views = True

    model: Siglip | None = None
    _texts: dict[str, Floats] = field(init=False, default_factory=dict)

    def check_at_hand(self, config: RunConfig) -> None:
        find_siglip(self.argument or DEFAULT_SIGLIP)

    def open(self, config: RunConfig, questions: Sequence[Question], engine: Engine) -> Self:
        return replace(self, model=load_siglip(self.argument or DEFAULT_SIGLIP, config.device))

    def score(self, context: TurnContext, candidates: Sequence[Candidate]) -> Verdict:
        """Return the cosine similarity of each candidate, (1, K); NaN if its view was not rendered.

        All images of a state are embedded in one batch.
        """
        assert self.model is not None, "open() must be called first"
        files = list(dict.fromkeys(c.view.file for c in candidates if c.view))
        reasons = tuple("" if c.view else "its view was not drawn" for c in candidates)
        scores = np.full((1, len(candidates)), np.nan)
        if not files:
            return Verdict(scores, reasons)
        images = self.model.images([context.load_image(file) for file in files]).pooled
        queries = self._query_embeddings(self.model, context.state.question)
        similarity = (images @ queries.T).max(1)
        by_file = dict(zip(files, similarity.tolist(), strict=True))
        for index, candidate in enumerate(candidates):
            if candidate.view:
                scores[0, index] = by_file[candidate.view.file]
        events, self.model.events = tuple(self.model.events), []
        return Verdict(scores, reasons, events=events)

    def _query_embeddings(self, model: Siglip, question: Question) -> Floats:
        """Return the embeddings of a question's text queries, (queries, W); embeddings are cached."""
        queries = text_queries(question)
        new_texts = [text for text in queries if text not in self._texts]
        if new_texts:
            embeddings = model.texts(new_texts).pooled
            self._texts |= dict(zip(new_texts, embeddings, strict=True))
        return np.stack([self._texts[text] for text in queries])


def text_queries(question: Question) -> list[str]:
    """Return the texts to compare views with."""
    names = named_categories(question)
    return [f"a photo of a {name}" for name in names] or [question.text]
