"""SigLIP models from transformers: embeddings of images and texts in a common space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image

from render_agent.engines.checkpoint.locate import (
    ALTERNATIVES,
    LocatedModel,
    describe_located,
    fetch_model,
    find_model,
    reject_adapter,
)
from render_agent.errors import EngineError, SetupError
from render_agent.util.reasons import first_line

DEFAULT_SIGLIP = "google/siglip2-base-patch16-224"

MODEL_TYPES = ("siglip", "siglip2")  # in config.json; fixed-resolution SigLIP2 models use "siglip"

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Embeddings of B images or texts."""

    pooled: Floats  # (B, W) unit vectors, comparable between images and texts
    hidden_states: Floats  # (B, patches or tokens, D) last hidden states


@dataclass(eq=False)
class Siglip:
    """A model and its processor on a device."""

    files: LocatedModel
    model: Any
    processor: Any
    events: list[str] = field(default_factory=list)
    """Recovered faults, by kind; callers that read the list clear it."""

    def describe(self) -> dict[str, Any]:
        """Return the model type and the identity of the weights, as JSON."""
        description = describe_located(self.files)
        return {name: description[name] for name in ("revision", "weights", "model_type")}

    def images(self, images: Sequence[Image]) -> Encoded:
        """Embed RGB images in one batch, halving the batch when memory runs out."""
        parts: list[Encoded] = []
        pending = [list(images)]
        while pending:
            batch = pending.pop(0)
            embeddings = self._encode_batch(batch)
            if embeddings is not None:
                parts.append(embeddings)
                continue
            if len(batch) == 1:
                raise EngineError(
                    f"out of memory with {self.files.name} and a single image. Use a smaller model or"
                    " another --device."
                )
            self.events.append("out_of_memory")
            middle = (len(batch) + 1) // 2
            pending[:0] = [batch[:middle], batch[middle:]]
        return Encoded(
            np.concatenate([part.pooled for part in parts]),
            np.concatenate([part.hidden_states for part in parts]),
        )

    def texts(self, texts: Sequence[str]) -> Encoded:
        """Embed texts as in training: lower-cased and padded to the maximum length."""
        tokens = self.processor.tokenizer(
            [text.lower() for text in texts],
            padding="max_length",
            truncation=True,
            max_length=self.model.config.text_config.max_position_embeddings,
            return_tensors="pt",
        )
        # No attention mask: the model was trained to attend to padding tokens.
        return self._run(self.model.get_text_features, {"input_ids": tokens["input_ids"]})

    def _encode_batch(self, images: list[Image]) -> Encoded | None:
        """Embed one batch; None if memory ran out."""
        from render_agent.engines.memory.faults import free_memory, is_out_of_memory

        try:
            inputs = self.processor.image_processor(images=images, return_tensors="pt")
            return self._run(self.model.get_image_features, dict(inputs))
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
        free_memory()  # outside the except block, so that no traceback references the failed batch
        return None

    def _run(self, model: Any, inputs: dict[str, Any]) -> Encoded:
        import torch

        device, dtype = self.model.device, self.model.dtype
        on_device = {
            name: tensor.to(device, dtype if tensor.is_floating_point() else None)
            for name, tensor in inputs.items()
        }
        with torch.inference_mode():
            output = model(**on_device)
            pooled_vectors = torch.nn.functional.normalize(output.pooler_output.float(), dim=-1)
            hidden_states = output.last_hidden_state.float()
        if not pooled_vectors.isfinite().all():
            raise EngineError(
                f"{self.files.name} gives embeddings that are not numbers (NaN or infinity) in {dtype} on {device}:"
                " its weights are damaged, or overflow there. Download them again, or use another --device."
            )
        return Encoded(pooled_vectors.cpu().numpy(), hidden_states.cpu().numpy())


def find_siglip(model: str) -> LocatedModel:
    """Locate the files of a model without reading its weights."""
    try:
        model_files = find_model(model)
    except SetupError as error:
        raise SetupError(str(error).replace(ALTERNATIVES, "pass a model directory")) from error
    reject_adapter(model_files, "this verifier")
    kind = model_files.config.get("model_type")
    if kind not in MODEL_TYPES:
        raise SetupError(f"{model} is a {kind} model. Use a SigLIP model such as {DEFAULT_SIGLIP}.")
    return model_files


def load_siglip(model: str, device: str = "auto") -> Siglip:
    """Load a model in float32 on a CPU or bfloat16 on a GPU."""
    from render_agent.engines.checkpoint.pretrained import (
        OFFLINE,
        WEIGHTS,
        check_weights,
        choose_device,
        silence_libraries,
    )
    from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

    torch_device = choose_device(device)
    model_files = fetch_model(find_siglip(model))
    patch_torchvision()
    silence_libraries()
    import torch
    from transformers import AutoModel, AutoProcessor

    dtype = torch.bfloat16 if torch_device.startswith("cuda") else torch.float32
    try:
        processor = AutoProcessor.from_pretrained(model_files.folder, **OFFLINE)
        network, loading = AutoModel.from_pretrained(model_files.folder, dtype=dtype, **WEIGHTS)
    except (OSError, ValueError, KeyError, TypeError, ImportError, RuntimeError) as error:
        raise SetupError(
            f"cannot load {model}: {first_line(error)}. Download the model again."
        ) from error
    check_weights(model, loading)
    return Siglip(model_files, network.to(torch_device).eval(), processor)
