"""The encoders by the names that `--encoder` and cards have for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.agents.verifiers.learned.encoder import Encoder
from render_agent.agents.verifiers.learned.pixels import PixelEncoder
from render_agent.agents.verifiers.learned.siglip_encoder import SiglipEncoder
from render_agent.agents.verifiers.siglip import DEFAULT, find_siglip
from render_agent.errors import SetupError


def make_encoder(label: str, device: str = "auto") -> Encoder:
    """Return the encoder that `--encoder` names. SetupError where it is not at hand."""
    name, _, model = label.partition(":")
    if label == "pixels":
        return PixelEncoder()
    if name == "siglip2":
        return SiglipEncoder(model, device)
    raise SetupError(f"there is no encoder {label!r}: name pixels or siglip2[:MODEL]")


def check_at_hand(told: Mapping[str, Any]) -> None:
    """Raise SetupError where the encoder that a card tells of is not at hand; no weights are loaded.

    Of one with weights only that there is such a model is known then.
    """
    name, _, model = told["label"].partition(":")
    if name == "siglip2":
        find_siglip(model or DEFAULT)
    else:
        check_encoder(make_encoder(told["label"]), told)


def check_encoder(encoder: Encoder, told: Mapping[str, Any]) -> None:
    """Raise SetupError where an encoder is not the one that a card tells of."""
    here = {"label": encoder.label, **encoder.describe()}
    odd = [name for name in sorted({*here, *told}) if here.get(name) != told.get(name)]
    if odd:
        raise SetupError(
            f"the verifier was trained on features of another {encoder.label}: its {odd[0]} was"
            f" {told.get(odd[0])}, here it is {here.get(odd[0])}"
        )
