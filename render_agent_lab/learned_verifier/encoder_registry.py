"""Encoder registry by `--encoder` label, and the SigLIP encoder."""

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
    """Encodes views and questions with a fixed-resolution SigLIP model. Ignores the map.

    Raises SetupError if the model is missing or has variable resolution (NaFlex).
    """

    def __init__(self, model: str = "", device: str = "auto") -> None:
        name = model or DEFAULT_SIGLIP
        self.label = f"siglip2:{name}"
        self._model = load_siglip(name, device)
        config = self._model.model.config
        side = getattr(config.vision_config, "image_size", None)
        if not isinstance(side, int):
            raise SetupError(
                f"{name} has variable resolution. Use a fixed-resolution model, such as {DEFAULT_SIGLIP}."
            )
        if config.vision_config.hidden_size != config.text_config.hidden_size:
            raise SetupError(
                f"{name} is not supported: its image features have {config.vision_config.hidden_size} dimensions,"
                f" its text features {config.text_config.hidden_size}"
            )
        self.rows = self.columns = side // config.vision_config.patch_size
        self.text = config.text_config.max_position_embeddings
        self.features = config.text_config.hidden_size

    def describe(self) -> dict[str, Any]:
        """Return the identity of the weights."""
        return self._model.describe()

    def encode_views(
        self, inputs: Sequence[EncoderInput], load_image: Callable[[str], Image]
    ) -> list[Floats]:
        """Return the last hidden states of the patches, computed in one batch."""
        return list(self._model.images([load_image(g.view.file) for g in inputs]).hidden_states)

    def encode_question(self, question: Question) -> Floats:
        """Return the last hidden states of the question's tokens, including padding."""
        states: Floats = self._model.texts([question.text]).hidden_states[0]
        return states


def make_encoder(label: str, device: str = "auto") -> Encoder:
    """Create the encoder named by `--encoder`. Raises SetupError if it is unavailable."""
    name, _, model = label.partition(":")
    if label == "pixels":
        return PixelEncoder()
    if name == "siglip2":
        return SiglipEncoder(model, device)
    raise SetupError(f"unknown encoder {label!r}. Use pixels or siglip2[:MODEL].")


def check_available(encoder: Mapping[str, Any]) -> None:
    """Raise SetupError if the encoder of a card is unavailable.

    Does not load weights, so for SigLIP it only checks that the model exists.
    """
    name, _, model = encoder["label"].partition(":")
    if name == "siglip2":
        find_siglip(model or DEFAULT_SIGLIP)
    else:
        check_encoder(make_encoder(encoder["label"]), encoder)


def check_encoder(encoder: Encoder, card: Mapping[str, Any]) -> None:
    """Raise SetupError if an encoder differs from the one recorded in a card."""
    current = {"label": encoder.label, **encoder.describe()}
    differences = [
        name for name in sorted({*current, *card}) if current.get(name) != card.get(name)
    ]
    if differences:
        raise SetupError(
            f"the verifier was trained with a different {encoder.label} encoder: {differences[0]} was"
            f" {card.get(differences[0])}, is {current.get(differences[0])}"
        )
