"""Small random models of every supported family, built from `families.yaml`.

Keys of a family:
    kind: The classes of the model and its configuration.
    processor: A class, its parts in order, and its settings.
    text, vision, more: Entries of the configuration.
    tokens: Token ids in the configuration.
    special: Special tokens in addition to Qwen's, by the processor's names.
    image: The image placeholder in the chat template.
    thinks: The text with which the template opens a thought.
    sized: True if the configuration also has the vocabulary size.
    first: The token that starts every prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from render_agent.engines.checkpoint.pretrained import Pretrained, choose_device
from render_agent_lab.random_models.random_model import CHAT_TEMPLATE, build_tokenizer

SMALL_FAMILIES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text("utf-8")
)["families"]

QWEN_IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"


def small_family(
    name: str, device: str = "cpu", dtype: str = "float32", seed: int = 0, tokenizer: Any = None
) -> Pretrained:
    """Return a small model of a family and its processor."""
    from render_agent.engines.checkpoint.torchvision_compat import patch_torchvision

    patch_torchvision()
    import torch
    import transformers

    family = SMALL_FAMILIES[name]
    tokenizer = tokenizer or build_tokenizer(**family.get("special", {}))
    if "first" in family:
        tokenizer.bos_token = family["first"]
    processor = _build(family["processor"], tokenizer)
    processor.chat_template = chat_template(family)
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    kind = getattr(transformers, f"{family['kind']}ForConditionalGeneration")
    model = kind(_config(family, tokenizer)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            # Gemma 3 initialises its projection with zeros, so that images would have no effect.
            if weight.dim() > 1 and not weight.any():
                torch.nn.init.normal_(weight, std=0.2)
    torch.set_rng_state(state)
    for part in (*model.parameters(), *model.buffers()):
        if (
            part.is_floating_point()
        ):  # complex buffers, as in Llama 4, would lose their imaginary part
            part.data = part.data.to(getattr(torch, dtype))
    model = model.to(choose_device(device))
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    model.generation_config.update(
        eos_token_id=ends,
        pad_token_id=ends[1],
        do_sample=False,
        temperature=None,
        top_k=None,
        top_p=None,
    )
    tokenizer.padding_side = "left"
    return Pretrained(processor, model, top_k=0, top_p=1.0)


def chat_template(family: dict[str, Any]) -> str:
    """Return a ChatML template with the family's image placeholder; earlier thoughts are omitted."""
    template = CHAT_TEMPLATE.replace(QWEN_IMAGE, family.get("image", QWEN_IMAGE))
    if "thinks" not in family:
        return template
    thinks = {
        "switch": "enable_thinking | default(true)",
        "opens": "<think>\\n",
        "closes": "\\n</think>\\n\\n",
        **family["thinks"],
    }
    thought = (
        f"assistant\\n{thinks['opens']}' + ('' if ({thinks['switch']}) else '{thinks['closes']}')"
    )
    return template.replace("assistant\\n'", thought)


def _build(recipe: str | list[Any], tokenizer: Any) -> Any:
    """Build a processor, or a part of it, from its class, parts and settings; "tokenizer" is the tokenizer."""
    import transformers

    if recipe == "tokenizer":
        return tokenizer
    kind, *parts = recipe
    settings = parts.pop() if parts and isinstance(parts[-1], dict) else {}
    return getattr(transformers, kind)(*(_build(part, tokenizer) for part in parts), **settings)


def _config(family: dict[str, Any], tokenizer: Any) -> Any:
    import transformers

    token, size = tokenizer.convert_tokens_to_ids, {"vocab_size": len(tokenizer)}
    end, between = token("<|im_end|>"), token("<|endoftext|>")
    ends = {"bos_token_id": between, "eos_token_id": end, "pad_token_id": between}
    return getattr(transformers, f"{family['kind']}Config")(
        text_config={**ends, **size, **family["text"]},
        vision_config=dict(family["vision"]),
        tie_word_embeddings=False,
        **{name: token(text) for name, text in family["tokens"].items()},
        **(size if family.get("sized") else {}),
        **family.get("more", {}),
    )
