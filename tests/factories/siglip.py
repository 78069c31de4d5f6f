"""A small random SigLIP model on disk."""

import numpy as np
import torch
from PIL import Image

from factories.models import small_tokenizer
from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

NAMES = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def small_siglip(folder, seed=0, text_width=32):
    """Write a SigLIP model for images of 32 × 32 pixels in four patches; return the folder."""
    patch_torchvision()
    from transformers import SiglipConfig, SiglipImageProcessor, SiglipModel, SiglipProcessor

    tokenizer = small_tokenizer()
    size = {"height": 32, "width": 32}
    SiglipProcessor(
        SiglipImageProcessor(size=size, image_mean=[0.5] * 3, image_std=[0.5] * 3), tokenizer
    ).save_pretrained(folder)
    ids = {
        "bos_token_id": 0,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    config = SiglipConfig(
        text_config={
            **NAMES,
            **ids,
            "hidden_size": text_width,
            "projection_size": 32,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 64,
        },
        vision_config={**NAMES, "image_size": 32, "patch_size": 16},
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = SiglipModel(config)
        for weight in model.parameters():
            if weight.dim() > 1:  # published values give all images almost the same embedding
                torch.nn.init.normal_(weight, std=0.3)
    model.eval().save_pretrained(folder)
    return folder


def noise_images(count, seed=0):
    """Return random images of different sizes."""
    rng = np.random.default_rng(seed)
    return [
        Image.fromarray(rng.integers(0, 255, (24 + 8 * number, 40, 3), dtype=np.uint8))
        for number in range(count)
    ]
