"""Models of the SigLIP kind, transformers' own classes: pictures and texts as numbers in one space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from render_agent.engines.checkpoint.locate import (
    WAY_OUT,
    FoundModel,
    describe_found,
    fetch_model,
    find_model,
)
from render_agent.errors import EngineError, SetupError
from render_agent.util.reasons import first_line

DEFAULT_SIGLIP = "google/siglip2-base-patch16-224"

MODEL_TYPES = ("siglip", "siglip2")
"""What config.json calls these models; SigLIP2 of one picture size calls itself siglip."""

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """What a model makes of B pictures or texts.

    pooled: (B, W), of length 1; those of pictures and texts compare. each: (B, patches or tokens, D), the
    last hidden states.
    """

    pooled: Floats
    each: Floats


@dataclass(eq=False)
class Siglip:
    """A model and its processor on a device.

    events: what went wrong and was mended, by kind; whoever reads them clears them.
    """

    files: FoundModel
    model: Any
    processor: Any
    events: list[str] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """Return what identifies its weights; JSON."""
        description = describe_found(self.files)
        return {name: description[name] for name in ("revision", "weights", "model_type")}

    def pictures(self, pictures: Sequence[Image]) -> Encoded:
        """Embed RGB pictures in one batch; a batch that memory cannot hold is halved.

        EngineError where not even one picture fits.
        """
        parts: list[Encoded] = []
        waiting = [list(pictures)]
        while waiting:
            batch = waiting.pop(0)
            encoded = self._encoded(batch)
            if encoded is not None:
                parts.append(encoded)
                continue
            if len(batch) == 1:
                raise EngineError(
                    f"the memory does not hold {self.files.name} and one picture: use a smaller model,"
                    " or another --device"
                )
            self.events.append("out_of_memory")
            middle = (len(batch) + 1) // 2
            waiting[:0] = [batch[:middle], batch[middle:]]
        return Encoded(
            np.concatenate([part.pooled for part in parts]),
            np.concatenate([part.each for part in parts]),
        )

    def texts(self, texts: Sequence[str]) -> Encoded:
        """Embed texts as in its training: in lower case, padded to the longest length."""
        tokens = self.processor.tokenizer(
            [text.lower() for text in texts],
            padding="max_length",
            truncation=True,
            max_length=self.model.config.text_config.max_position_embeddings,
            return_tensors="pt",
        )
        # no mask: padding counted like words in training
        return self._run(self.model.get_text_features, {"input_ids": tokens["input_ids"]})

    def _encoded(self, pictures: list[Image]) -> Encoded | None:
        """Embed one batch; None where memory ran out."""
        from render_agent.engines.memory.faults import free_memory, is_out_of_memory

        try:
            inputs = self.processor.image_processor(images=pictures, return_tensors="pt")
            return self._run(self.model.get_image_features, dict(inputs))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        free_memory()  # here, where nothing holds the failed batch any more
        return None

    def _run(self, model: Any, inputs: dict[str, Any]) -> Encoded:
        import torch

        device, dtype = self.model.device, self.model.dtype
        moved = {
            name: tensor.to(device, dtype if tensor.is_floating_point() else None)
            for name, tensor in inputs.items()
        }
        with torch.inference_mode():
            out = model(**moved)
            pooled = torch.nn.functional.normalize(out.pooler_output.float(), dim=-1)
            each = out.last_hidden_state.float()
        return Encoded(pooled.cpu().numpy(), each.cpu().numpy())


def find_siglip(model: str) -> FoundModel:
    """Return the files of a model; no weights are read. SetupError where there is none of the kind."""
    try:
        located = find_model(model)
    except SetupError as error:
        raise SetupError(str(error).replace(WAY_OUT, "pass a model directory")) from error
    kind = located.config.get("model_type")
    if kind not in MODEL_TYPES:
        raise SetupError(
            f"{model} is a {kind}, not a model of the SigLIP kind such as {DEFAULT_SIGLIP}"
        )
    return located


def load_siglip(model: str, device: str = "auto") -> Siglip:
    """Return a model, in float32 on a CPU and bfloat16 on a GPU. SetupError where it cannot be had.

    device: as `--device` has it.
    """
    from render_agent.engines.checkpoint.pretrained import (
        OFFLINE,
        WEIGHTS,
        choose_device,
        silence_libraries,
    )
    from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision

    place = choose_device(device)
    located = fetch_model(find_siglip(model))
    cure_torchvision()
    silence_libraries()
    import torch
    from transformers import AutoModel, AutoProcessor

    dtype = torch.bfloat16 if place.startswith("cuda") else torch.float32
    try:
        processor = AutoProcessor.from_pretrained(located.folder, **OFFLINE)
        loaded = AutoModel.from_pretrained(located.folder, dtype=dtype, **WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError) as error:
        raise SetupError(
            f"{model} cannot be loaded ({first_line(error)}): fetch the model again"
        ) from error
    return Siglip(located, loaded.to(place).eval(), processor)
