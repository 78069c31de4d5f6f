"""The frozen features of a SigLIP model: its last hidden states of patches and of text tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PIL.Image import Image

from render_agent.agents.verifiers.learned.encoder import Encoder, Floats, Glimpse
from render_agent.agents.verifiers.siglip import DEFAULT, load_siglip
from render_agent.dialogue.state import Question
from render_agent.errors import SetupError


class SiglipEncoder(Encoder):
    """Patches of views and tokens of questions from a SigLIP model with pictures of one size.

    The map is not looked at. SetupError where there is no such model, or it cuts pictures into grids that
    change (NaFlex).
    """

    def __init__(self, model: str = "", device: str = "auto") -> None:
        name = model or DEFAULT
        self.label = f"siglip2:{name}"
        self._model = load_siglip(name, device)
        config = self._model.model.config
        side = getattr(config.vision_config, "image_size", None)
        if not isinstance(side, int):
            raise SetupError(
                f"{name} cuts pictures into grids that change: name one of a fixed size, such as {DEFAULT}"
            )
        if config.vision_config.hidden_size != config.text_config.hidden_size:
            raise SetupError(
                f"{name} has {config.vision_config.hidden_size} numbers a patch and"
                f" {config.text_config.hidden_size} a token: they must be as many"
            )
        self.rows = self.columns = side // config.vision_config.patch_size
        self.text = config.text_config.max_position_embeddings
        self.features = config.text_config.hidden_size

    def describe(self) -> dict[str, Any]:
        """Return what identifies the weights."""
        return self._model.describe()

    def encode_views(
        self, glimpses: Sequence[Glimpse], picture: Callable[[str], Image]
    ) -> list[Floats]:
        """Return the last hidden states of the patches of every view, from one pass."""
        return list(self._model.pictures([picture(g.view.file) for g in glimpses]).each)

    def encode_question(self, question: Question) -> Floats:
        """Return the last hidden states of the question's tokens, padding included."""
        encoded: Floats = self._model.texts([question.text]).each[0]
        return encoded
