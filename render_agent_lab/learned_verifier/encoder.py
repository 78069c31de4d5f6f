"""Interface of frozen encoders, which compute features of an image and a question, and a feature cache."""

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
from render_agent.dialogue.chat import View
from render_agent.dialogue.question import Question
from render_agent.scans.camera import Camera, MapCamera
from render_agent_lab.learned_verifier.shape import Features

Floats = NDArray[np.float32]

MAX_CACHE_BYTES = 512 * 2**20  # per cache: one for views, one for pairs of view and question


@dataclass(frozen=True, slots=True)
class EncoderInput:
    """The input of an encoder: a view, the most recent map before it, and the current camera."""

    view: View
    plan: View | None
    camera: Camera

    @classmethod
    def of(cls, context: TurnContext) -> EncoderInput | None:
        """Return the encoder's input for the current turn; None if nothing is shown.

        The view is the last of the turn that is not a map; if all are maps, the last map.
        """
        views = context.observation.views or context.views[-1:]
        if not views:
            return None
        plans = [view for view in context.views if isinstance(view.camera, MapCamera)]
        images = [view for view in views if not isinstance(view.camera, MapCamera)]
        view = (images or list(views))[-1]
        return cls(view, plans[-1] if plans else None, context.observation.camera)


class Encoder(ABC):
    """Computes frozen features of views and questions; it is not trained here."""

    label: str  # value of `--encoder` that selects it
    rows: int
    columns: int
    text: int  # tokens per question
    features: int  # feature dimension of patches and tokens

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return a JSON object that identifies the encoder. A verifier only works with the encoder it was trained on."""

    @abstractmethod
    def encode_views(
        self,
        inputs: Sequence[EncoderInput],
        load_image: Callable[[str], Image],  # returns the RGB image of a view's file
    ) -> list[Floats]:
        """Return the patch features of each view, (rows * columns, features) float32."""

    @abstractmethod
    def encode_question(self, question: Question) -> Floats:
        """Compute the token features of a question, (text, features) float32."""

    def key(self, view_input: EncoderInput) -> Any:
        """Return the cache key for the patch features of a view."""
        return view_input.view.file


class FeatureCache:
    """Computes the features of the views and questions of one run, each only once."""

    def __init__(
        self,
        encoder: Encoder,
        load_image: Callable[[str], Image],  # returns the RGB image of a view's file
    ) -> None:
        self.encoder = encoder
        self.load_image = load_image
        self._views: OrderedDict[Any, Floats] = OrderedDict()
        self._questions: OrderedDict[tuple[str, tuple[str, ...]], Floats] = OrderedDict()
        self._pairs: OrderedDict[Any, Features] = OrderedDict()

    def features(self, pairs: Sequence[tuple[EncoderInput, Question]]) -> list[Features]:
        """Return the features of each pair; equal pairs share the same object."""
        new_views = {
            key: view_input
            for view_input, _ in pairs
            if (key := self.encoder.key(view_input)) not in self._views
        }
        encodings = (
            self.encoder.encode_views(list(new_views.values()), self.load_image)
            if new_views
            else []
        )
        views = dict(zip(new_views, encodings, strict=True))
        features = []
        for view_input, question in pairs:
            key, words = self.encoder.key(view_input), (question.text, question.options)
            if (key, words) not in self._pairs:
                if words not in self._questions:
                    tokens = self.encoder.encode_question(question)
                    _store(self._questions, words, tokens, MAX_CACHE_BYTES // (4 * tokens.size))
                patches = views[key] if key in views else self._views[key]
                pair = Features(patches, self._questions[words])
                _store(self._pairs, (key, words), pair, self._max_views)
            features.append(self._pairs[key, words])
        for key, patches in views.items():
            _store(self._views, key, patches, self._max_views)
        return features

    @property
    def _max_views(self) -> int:
        """Maximum number of views to cache."""
        encoder = self.encoder
        return max(64, MAX_CACHE_BYTES // (4 * encoder.rows * encoder.columns * encoder.features))


def _store(cache: OrderedDict[Any, Any], key: Any, value: Any, max_entries: int) -> None:
    cache[key] = value
    while len(cache) > max_entries:
        cache.popitem(last=False)
