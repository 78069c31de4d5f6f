"""The protocol of frozen encoders, which make features of a picture and a question, and a cache of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from render_agent.agents.verifiers.verifier import TurnContext
from render_agent.dialogue.question import Question
from render_agent.dialogue.view import View
from render_agent.scans.camera import Camera, MapCamera
from render_agent_lab.learned_verifier.shape import Features

Floats = NDArray[np.float32]

MAX_CACHE_BYTES = 512 * 2**20
"""Bytes of features that are kept of views, and as many of pairs of a view and a question at the most."""


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """What an encoder may look at: a view, the newest map before it, and where the camera stands."""

    view: View
    plan: View | None
    camera: Camera

    @classmethod
    def of(cls, context: TurnContext) -> EncoderInput | None:
        """Return the encoder's input for the current turn, None where nothing is shown.

        Of the views of this turn that is the last that is no map; where there is none, the map.
        """
        views = context.observation.views or context.views[-1:]
        if not views:
            return None
        plans = [view for view in context.views if isinstance(view.camera, MapCamera)]
        pictures = [view for view in views if not isinstance(view.camera, MapCamera)]
        view = (pictures or list(views))[-1]
        return cls(view, plans[-1] if plans else None, context.observation.camera)


class Encoder(ABC):
    """Makes features of views and of questions; nothing in it is trained here.

    label: what it is asked for with. rows, columns: of the grid of patches. text: tokens of a question.
    features: numbers of a patch or a token.
    """

    label: str
    rows: int
    columns: int
    text: int
    features: int

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return what identifies it; a verifier works with features of the same one only. JSON."""

    @abstractmethod
    def encode_views(
        self, glimpses: Sequence[EncoderInput], picture: Callable[[str], Image]
    ) -> list[Floats]:
        """Return the patches of every view, each (rows · columns, features) float32.

        picture: gives the RGB picture of a view's file.
        """

    @abstractmethod
    def encode_question(self, question: Question) -> Floats:
        """Return the tokens of a question, (text, features) float32."""

    def key(self, glimpse: EncoderInput) -> Any:
        """Return the cache key of the patches of a view."""
        return glimpse.view.file


class FeatureCache:
    """Features of the views and questions of one run, each encoded once.

    picture: gives the RGB picture of a view's file.
    """

    def __init__(self, encoder: Encoder, picture: Callable[[str], Image]) -> None:
        self.encoder = encoder
        self.picture = picture
        self._views: OrderedDict[Any, Floats] = OrderedDict()
        self._questions: OrderedDict[tuple[str, tuple[str, ...]], Floats] = OrderedDict()
        self._pairs: OrderedDict[Any, Features] = OrderedDict()

    def features(self, pairs: Sequence[tuple[EncoderInput, Question]]) -> list[Features]:
        """Return the features of views with questions; those of the same pair are the same object."""
        fresh = {
            key: glimpse
            for glimpse, _ in pairs
            if (key := self.encoder.key(glimpse)) not in self._views
        }
        made = self.encoder.encode_views(list(fresh.values()), self.picture) if fresh else []
        views = dict(zip(fresh, made, strict=True))
        features = []
        for glimpse, question in pairs:
            key, words = self.encoder.key(glimpse), (question.text, question.options)
            if (key, words) not in self._pairs:
                if words not in self._questions:
                    tokens = self.encoder.encode_question(question)
                    _keep(self._questions, words, tokens, MAX_CACHE_BYTES // (4 * tokens.size))
                patches = views[key] if key in views else self._views[key]
                pair = Features(patches, self._questions[words])
                _keep(self._pairs, (key, words), pair, self._most)
            features.append(self._pairs[key, words])
        for key, patches in views.items():
            _keep(self._views, key, patches, self._most)
        return features

    @property
    def _most(self) -> int:
        """The views that are kept."""
        encoder = self.encoder
        return max(64, MAX_CACHE_BYTES // (4 * encoder.rows * encoder.columns * encoder.features))


def _keep(kept: OrderedDict[Any, Any], key: Any, value: Any, most: int) -> None:
    kept[key] = value
    while len(kept) > most:
        kept.popitem(last=False)
