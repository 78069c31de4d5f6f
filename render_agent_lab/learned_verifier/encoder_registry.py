"""The encoders by the names of `--encoder` and cards, and the one that reads pictures by a SigLIP model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from PIL.Image import Image

from render_agent.agents.verifiers.siglip import DEFAULT_SIGLIP, find_siglip, load_siglip
from render_agent.dialogue.question import Question
from render_agent.errors import SetupError
from render_agent_lab.learned_verifier.encoder import Encoder, EncoderInput, Floats
from render_agent_lab.learned_verifier.pixels import PixelEncoder


class SiglipEncoder(Encoder):
    """Patches of views and tokens of questions from a SigLIP model with pictures of one size.

    The map is not looked at. SetupError where there is no such model, or it cuts pictures into grids that
    change (NaFlex).
    """

    def __init__(self, model: str = "", device: str = "auto") -> None:
        name = model or DEFAULT_SIGLIP
        self.label = f"siglip2:{name}"
        self._model = load_siglip(name, device)
        config = self._model.model.config
        side = getattr(config.vision_config, "image_size", None)
        if not isinstance(side, int):
            raise SetupError(
                f"{name} cuts pictures into grids that change: name one of a fixed size, such as {DEFAULT_SIGLIP}"
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
        self, glimpses: Sequence[EncoderInput], picture: Callable[[str], Image]
    ) -> list[Floats]:
        """Return the last hidden states of the patches of every view, from one pass."""
        return list(self._model.pictures([picture(g.view.file) for g in glimpses]).each)

    def encode_question(self, question: Question) -> Floats:
        """Return the last hidden states of the question's tokens, padding included."""
        encoded: Floats = self._model.texts([question.text]).each[0]
        return encoded


def make_encoder(label: str, device: str = "auto") -> Encoder:
    """Return the encoder that `--encoder` names. SetupError where it is not at hand."""
    name, _, model = label.partition(":")
    if label == "pixels":
        return PixelEncoder()
    if name == "siglip2":
        return SiglipEncoder(model, device)
    raise SetupError(f"there is no encoder {label!r}: name pixels or siglip2[:MODEL]")


def check_available(encoder: Mapping[str, Any]) -> None:
    """Raise SetupError where the encoder of a card is not available; no weights are loaded.

    Of one with weights only that there is such a model is known then.
    """
    name, _, model = encoder["label"].partition(":")
    if name == "siglip2":
        find_siglip(model or DEFAULT_SIGLIP)
    else:
        check_encoder(make_encoder(encoder["label"]), encoder)


def check_encoder(encoder: Encoder, card: Mapping[str, Any]) -> None:
    """Raise SetupError where an encoder is not the one that a card records."""
    here = {"label": encoder.label, **encoder.describe()}
    odd = [name for name in sorted({*here, *card}) if here.get(name) != card.get(name)]
    if odd:
        raise SetupError(
            f"the verifier was trained on features of another {encoder.label}: its {odd[0]} was"
            f" {card.get(odd[0])}, here it is {here.get(odd[0])}"
        )
