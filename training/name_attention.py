"""Name grounding: trains the language model's first layer, jointly with the tower, to find named objects in an image.

A name attends to an image's tokens with the weights, norms and positions of the first layer, at every distance at which a
dialogue may follow its image. The dialogue stages start from these weights; only the linear readout is discarded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from render_agent.scans.camera import Camera
from render_agent.util.safe_parse import convert
from training.phrases import LABELS
from training.shape import COLUMNS_OF_TOKENS, ROWS_OF_TOKENS, TOKENS

MAX_DISTANCE_TOKENS = 600  # maximum tokens between an image and a name

METRES_PER_UNIT = 4.0  # metres per unit of the regression targets

NOWHERE = (math.nan, math.nan)


def read_places(file: Path) -> NDArray[np.float32]:
    """Read the positions of the objects in LABELS from a file of image descriptions, (n, names, 3).

    The first number is 1 if the image shows the object. The others are metres, NaN if unknown: on a map x and y of the
    leftmost object; in other images ahead and left of the camera (levelled), NaN if there are several.
    """
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    places = np.full((len(lines), len(LABELS), 3), math.nan, np.float32)
    places[:, :, 0] = 0
    for row, line in enumerate(lines):
        camera = convert(line["camera"], Camera)
        for name, positions in line["shown"].items():
            places[row, LABELS.index(name)] = 1, *_target(line["kind"], positions, camera)
    return places


def _target(kind: str, positions: Sequence[Sequence[float]], camera: Camera) -> tuple[float, float]:
    """Return the position that a readout should predict, NOWHERE if it is ambiguous."""
    if kind == "top":
        x, y = min(map(tuple, positions))
        return x, y
    if len(positions) > 1:
        return NOWHERE
    yaw = math.radians(camera.yaw)
    x, y = (end - start for end, start in zip(positions[0], camera.position[:2], strict=True))
    return x * math.cos(yaw) + y * math.sin(yaw), y * math.cos(yaw) - x * math.sin(yaw)


class NameFinder:
    """Finds names in images with the first layer of a language model."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        import torch

        self.text = model.model.language_model
        self.ids = torch.tensor([tokenizer(name)["input_ids"] for name in LABELS])[:, 0]
        self.readout = torch.nn.Linear(self.text.config.hidden_size, 3)

    @property
    def modules(self) -> dict[str, Any]:
        """The trained modules by weight prefix in the whole model, plus the discarded linear readout."""
        first = self.text.layers[0]
        return {
            "text.embed_tokens": self.text.embed_tokens,
            "text.layers.0.self_attn": first.self_attn,
            "text.layers.0.input_layernorm": first.input_layernorm,
            "finder": self.readout,
        }

    def loss(
        self,
        merged: Any,  # image tokens from the tower, (n, 70, 256)
        places: Any,  # from `read_places`, (n, names, 3)
        rng: np.random.Generator,
    ) -> tuple[Any, dict[str, float]]:
        """Return the loss of one batch, and metrics."""
        import torch
        from torch.nn import functional

        predictions = self._read(merged, int(rng.integers(1, MAX_DISTANCE_TOKENS)))
        is_shown, targets = places[..., 0], places[..., 1:] / METRES_PER_UNIT
        shown_loss = functional.binary_cross_entropy_with_logits(predictions[..., 0], is_shown)
        is_known = torch.isfinite(targets)
        error_units = predictions[..., 1:] - torch.nan_to_num(targets)
        error = functional.smooth_l1_loss(
            error_units, torch.zeros_like(error_units), beta=0.05, reduction="none"
        )
        position_loss = (error * is_known).sum() / is_known.sum().clamp(min=1)
        with torch.no_grad():
            metres = (error_units.abs().amax(-1) * METRES_PER_UNIT)[is_known.all(-1)].median()
            accuracy = ((predictions[..., 0] > 0) == (is_shown > 0)).float().mean()
        return shown_loss + 4 * position_loss, {
            "name metres": metres.item(),
            "name accuracy": accuracy.item(),
        }

    def _read(self, merged: Any, distance: int) -> Any:
        """Return the readout for each name in each image, (n, names, 3) float32."""
        import torch

        first = self.text.layers[0]
        names = self.text.embed_tokens(self.ids).expand(len(merged), -1, -1)
        tokens = torch.cat((merged, names), dim=1)
        rows, columns = np.divmod(np.arange(TOKENS), COLUMNS_OF_TOKENS)
        after_image = np.full(len(LABELS), max(ROWS_OF_TOKENS, COLUMNS_OF_TOKENS) + distance)
        positions = np.stack(
            [
                np.concatenate([image_positions, after_image])
                for image_positions in (np.zeros(TOKENS, int), rows, columns)
            ]
        )
        cos, sin = self.text.rotary_emb(tokens, torch.from_numpy(positions)[:, None])
        mask = torch.full((tokens.shape[1], tokens.shape[1]), -torch.inf, dtype=tokens.dtype)
        mask[:, :TOKENS] = 0  # attend to image tokens only
        attended, _ = first.self_attn(
            first.input_layernorm(tokens),
            position_embeddings=(cos, sin),
            attention_mask=mask[None, None],
        )
        return self.readout((tokens + attended)[:, TOKENS:]).float()
