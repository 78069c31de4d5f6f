"""A small model of every family that is known, with random weights, made where it is to run.

`doctor --probe` lets them answer, tests try them, `benchmarks/families.py` measures them. `initializer_range` is 0.2
and embeddings are untied: with the published values a model of this size repeats one token whatever it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from render_agent.engines.checkpoint.pretrained import Pretrained, choose_device
from render_agent_lab.random_models.published_shapes import SHAPES, SMALL
from render_agent_lab.random_models.random_model import CHAT_TEMPLATE, made_tokenizer

Settings = dict[str, Any]
"""Keywords of a class of transformers."""

TEXT: Settings = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 32768,
    "initializer_range": 0.2,
    "tie_word_embeddings": False,
}
HEADLESS: Settings = {name: value for name, value in TEXT.items() if name != "head_dim"}
"""The same for families whose heads have the size that follows from their number."""

TOWER: Settings = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "initializer_range": 0.2,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": 14,
}
"""A small vision tower, as most families name its parts."""

QWEN_TOWER: Settings = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "initializer_range": 0.2,
    "depth": 2,
    "num_heads": 2,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 64,
}
"""That of a Qwen-VL, or of a family that names its parts as Qwen does."""

QWEN3_TOWER = QWEN_TOWER | {"patch_size": 16, "num_position_embeddings": 256}
SIGLIP = TOWER | {
    "image_size": 56,
    "model_type": "siglip_vision_model",
    "vision_use_head": False,
}

TILE = {"height": 56, "width": 56}
NORM: Settings = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
AREA = {"shortest_edge": 32 * 32, "longest_edge": 4096 * 4096}
WINDOW = 16
"""Tokens that a layer with a window sees: fewer than any dialogue has."""

EXPERTS: Settings = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
ROUTED: Settings = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}
LINEAR: Settings = {
    "num_hidden_layers": 4,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
}
"""Layers of linear attention among the others."""


def _rope(*sections: int, **more: Any) -> Settings:
    rope = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": list(sections), **more}
    return {"rope_parameters": rope}


HYBRID_ROPE = _rope(4, 2, 2, mrope_interleaved=True, partial_rotary_factor=0.5)

QWEN_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"
QWEN_TOKENS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}
THINK_TOKENS = {"think": "<think>", "end_of_think": "</think>"}


def _shown(placeholder: str) -> str:
    """Return the chat template with another placeholder of a picture."""
    return CHAT_TEMPLATE.replace(QWEN_PICTURE, placeholder)


def _thinks(
    placeholder: str = QWEN_PICTURE,
    switch: str = "enable_thinking | default(true)",
    opens: str = "<think>\\n",
    closes: str = "\\n</think>\\n\\n",
) -> str:
    """Return a chat template that opens a thought, or an empty one where thinking is switched off; earlier thoughts are left out."""
    thought = f"assistant\\n{opens}' + ('' if ({switch}) else '{closes}')"
    return _shown(placeholder).replace("assistant\\n'", thought)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a processor, or a part of one, is made: a class of transformers, its parts in order, its settings.

    Without a class it stands for the tokenizer.
    """

    kind: str
    parts: tuple[Recipe, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    def build(self, tokenizer: Any) -> Any:
        """Make the processor or part, with this tokenizer."""
        import transformers

        if not self.kind:
            return tokenizer
        parts = [part.build(tokenizer) for part in self.parts]
        return getattr(transformers, self.kind)(*parts, **self.settings)


TOKENIZER = Recipe("")


def _processor(kind: str, *parts: Recipe, **settings: Any) -> Recipe:
    return Recipe(f"{kind}Processor", parts, settings)


def _pictures(kind: str, **settings: Any) -> Recipe:
    """Return the recipe of a processor of pictures, or of videos."""
    return Recipe(f"{kind}Processor", (), {**settings, **NORM})


@dataclass(frozen=True, slots=True)
class SmallFamily:
    """How a small model of one family is made.

    kind: the classes of its model and its configuration, as transformers names them. text, vision, more: the
    configuration of its language model, its vision tower and what is beside them. tokens: tokens that the
    configuration knows, by the name of their number in it. sized: whether the configuration has the size of the
    vocabulary itself, too. special: special tokens beside Qwen's, by the names that the processor knows them by.
    template: how it is spoken to. first: the token that its prompts begin with, where its processor wants one.
    """

    kind: str
    processor: Recipe
    text: Mapping[str, Any]
    vision: Mapping[str, Any]
    tokens: Mapping[str, str | list[str]]
    more: Mapping[str, Any] = field(default_factory=dict)
    special: Mapping[str, str] = field(default_factory=dict)
    template: str = CHAT_TEMPLATE
    sized: bool = False
    first: str | None = None

    def config(self, tokenizer: Any) -> Any:
        """Return its configuration, for this tokenizer."""
        import transformers

        token, size = tokenizer.convert_tokens_to_ids, {"vocab_size": len(tokenizer)}
        end, between = token("<|im_end|>"), token("<|endoftext|>")
        ends = {"bos_token_id": between, "eos_token_id": end, "pad_token_id": between}
        return getattr(transformers, f"{self.kind}Config")(
            text_config={**ends, **size, **self.text},
            vision_config=dict(self.vision),
            tie_word_embeddings=False,
            **{name: token(text) for name, text in self.tokens.items()},
            **(size if self.sized else {}),
            **self.more,
        )


def small_family(
    name: str, device: str = "cpu", dtype: str = "float32", seed: int = 0, tokenizer: Any = None
) -> Pretrained:
    """Return a small model of a family on a device, with its processor. KeyError for one that is not known.

    tokenizer: one that has Qwen's special tokens and the family's own, `special`; by default it is made. Raises whatever its classes raise, as where the library lacks one.
    """
    from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision

    cure_torchvision()
    import torch
    import transformers

    family = SMALL_FAMILIES[name]
    tokenizer = tokenizer or made_tokenizer(**family.special)
    if family.first is not None:
        tokenizer.bos_token = family.first
    processor = family.processor.build(tokenizer)
    processor.chat_template = family.template
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    kind = getattr(transformers, f"{family.kind}ForConditionalGeneration")
    model = kind(family.config(tokenizer)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            # Gemma 3's projection begins at zero: no picture would change anything.
            if weight.dim() > 1 and not weight.any():
                torch.nn.init.normal_(weight, std=0.2)
    torch.set_rng_state(state)
    for part in (*model.parameters(), *model.buffers()):
        if part.is_floating_point():  # complex ones, as of Llama 4, would lose a part
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


def _qwen_processor(kind: str = "Qwen3VL", patch: int = 16) -> Recipe:
    sizes = {"patch_size": patch, "temporal_patch_size": 2, "merge_size": 2}
    return _processor(
        kind,
        _pictures("Qwen2VLImage", size=AREA, **sizes),
        TOKENIZER,
        _pictures("Qwen2VLVideo", **sizes),
    )


QWEN3_5_TEXT = TEXT | LINEAR | HYBRID_ROPE

GLM_TOKENS = {
    "image_token": "<|image|>",
    "video_token": "<|video|>",
    "image_start_token": "<|begin_of_image|>",
    "image_end_token": "<|end_of_image|>",
    "video_start_token": "<|begin_of_video|>",
    "video_end_token": "<|end_of_video|>",
}
GLM_PICTURE = "<|begin_of_image|><|image|><|end_of_image|>"


def _glm(
    kind: str,
    processor: str,
    experts: Mapping[str, Any],
    special: Mapping[str, str],
    template: str,
) -> SmallFamily:
    sizes = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
    return SmallFamily(
        kind,
        _processor(
            processor,
            _pictures(f"{processor}Image", size=AREA, **sizes),
            TOKENIZER,
            _pictures(f"{processor}Video", **sizes),
        ),
        {**TEXT, "head_dim": 16, **_rope(4, 2, 2, partial_rotary_factor=1.0), **experts},
        QWEN_TOWER | {"image_size": 56},
        {f"{name}_id": text for name, text in GLM_TOKENS.items()},
        special={**GLM_TOKENS, **special},
        template=template,
    )


GEMMA4_TOWER = TOWER | {
    "patch_size": 16,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "pooling_kernel_size": 3,
    "position_embedding_size": 1024,
}
GEMMA4_TOKENS = {
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "image_token": "<|image|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
    "audio_token": "<|audio|>",
}


def _gemma4(
    kind: str,
    vision: Mapping[str, Any],
    layers: int = 4,
    special: Mapping[str, str] = {},
    template: str = "",
    **text: Any,
) -> SmallFamily:
    types = ["sliding_attention", "full_attention"] * layers
    return SmallFamily(
        kind,
        _processor(
            kind,
            Recipe(f"{kind}AudioFeatureExtractor"),
            Recipe(f"{kind}ImageProcessor", settings={"max_soft_tokens": 70}),
            TOKENIZER,
            Recipe(f"{kind}VideoProcessor"),
            image_seq_length=70,
        ),
        {
            **TEXT,
            "num_hidden_layers": layers,
            "head_dim": 16,
            "global_head_dim": 32,
            "sliding_window": WINDOW,
            "layer_types": types[:layers],
            **text,
        },
        vision,
        {
            "boi_token_id": "<|image>",
            "eoi_token_id": "<image|>",
            "image_token_id": "<|image|>",
            "video_token_id": "<|video|>",
            "audio_token_id": "<|audio|>",
            "boa_token_id": "<|audio>",
            "eoa_token_index": "<audio|>",
        },
        {"audio_config": None, "initializer_range": 0.2},
        {**GEMMA4_TOKENS, **special},
        template or _shown("<|image|>"),
    )


def _idefics(kind: str, *video: Recipe) -> SmallFamily:
    return SmallFamily(
        kind,
        _processor(
            kind, _pictures(f"{kind}Image", **IDEFICS_SIZES), TOKENIZER, *video, image_seq_len=4
        ),
        TEXT | {"model_type": "llama"},
        TOWER | {"image_size": 56},
        {"image_token_id": "<image>", "pad_token_id": "<|endoftext|>"},
        {"scale_factor": 2},
        {
            "image": "<image>",
            "fake_image_token": "<fake_token_around_image>",
            "end_of_utterance_token": "<end_of_utterance>",
            "global_image_token": "<global-img>",
        },
        _shown("<image>"),
    )


IDEFICS_SIZES = {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}}
THREE_LAYERS = {
    "sliding_window": WINDOW,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
}
OVIS_MARKS = {
    "start": "<IMG_START>",
    "grid": "<IMG_GRID>",
    "column": "<IMG_COL>",
    "row": "<IMG_ROW>",
    "end": "<IMG_END>",
}
MINICPM_SIZES = {"scale_resolution": 112, "patch_size": 14, "max_slice_nums": 4}
LLAVA_SIZE = {"height": 28, "width": 28}
LLAVA_GRIDS = [[28, 28], [28, 56], [56, 28], [56, 56]]

SMALL_FAMILIES: Mapping[str, SmallFamily] = {
    "qwen3_vl": SmallFamily(
        "Qwen3VL",
        _qwen_processor(),
        {
            **TEXT,
            **SHAPES[SMALL].text,
            **_rope(8, 4, 4, rope_theta=5e6, mrope_interleaved=True),
            "pad_token_id": None,
        },
        {**QWEN3_TOWER, **SHAPES[SMALL].vision},
        QWEN_TOKENS,
    ),
    "qwen3_vl_moe": SmallFamily(
        "Qwen3VLMoe",
        _qwen_processor(),
        {**TEXT, **_rope(8, 4, 4, mrope_interleaved=True), **EXPERTS},
        QWEN3_TOWER | {"deepstack_visual_indexes": [0, 1]},
        QWEN_TOKENS,
    ),
    "qwen2_5_vl": SmallFamily(
        "Qwen2_5_VL",
        _qwen_processor("Qwen2_5_VL", 14),
        HEADLESS | _rope(4, 2, 2),
        QWEN_TOWER | {"depth": 3, "window_size": 56, "fullatt_block_indexes": [1]},
        QWEN_TOKENS,
    ),
    "internvl": SmallFamily(
        "InternVL",
        _processor(
            "InternVL",
            _pictures("GotOcr2Image", size=TILE, crop_to_patches=True, max_patches=12),
            TOKENIZER,
            _pictures("InternVLVideo", size=TILE),
            image_seq_length=4,
        ),
        TEXT | {"model_type": "qwen3"},
        TOWER | {"num_hidden_layers": 3, "image_size": [56, 56], "patch_size": [14, 14]},
        {"image_token_id": "<IMG_CONTEXT>"},
        {"image_seq_length": 4},
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        _shown("<IMG_CONTEXT>\\n"),
    ),
    "qwen3_5": SmallFamily(
        "Qwen3_5",
        _qwen_processor(),
        QWEN3_5_TEXT,
        QWEN3_TOWER,
        QWEN_TOKENS,
        special=THINK_TOKENS,
        template=_thinks(),
    ),
    "qwen3_5_moe": SmallFamily(
        "Qwen3_5Moe", _qwen_processor(), QWEN3_5_TEXT | EXPERTS, QWEN3_TOWER, QWEN_TOKENS
    ),
    "qwen4_exp": SmallFamily(
        "Qwen4Exp",
        _qwen_processor(),
        {
            **QWEN3_5_TEXT,
            "hc_count": 2,
            "hc_lowrank": 8,
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 16,
            "indexer_budget": 64,
            "indexer_compress_ratio": 16,
            **EXPERTS,
        },
        QWEN3_TOWER,
        QWEN_TOKENS,
        special=THINK_TOKENS,
        template=_thinks(),
    ),
    "glm4v": _glm("Glm4v", "Glm4v", {}, {}, _shown(GLM_PICTURE)),
    "glm4v_moe": _glm("Glm4vMoe", "Glm4v", ROUTED | {"n_group": 1}, {}, _shown(GLM_PICTURE)),
    "glm46v": _glm("Glm46V", "Glm46V", {}, THINK_TOKENS, _thinks(GLM_PICTURE)),
    "kimi_k25": SmallFamily(
        "Kimi_K25",
        _processor(
            "Kimi_K25",
            _pictures("Kimi_K25Image", patch_size=14, merge_size=2),
            TOKENIZER,
            _pictures("Kimi_K25Video", patch_size=14, merge_size=2),
        ),
        {
            **TEXT,
            "model_type": "deepseek_v3",
            "head_dim": 8,
            "num_key_value_heads": 4,
            "q_lora_rank": 16,
            "kv_lora_rank": 16,
            "qk_rope_head_dim": 8,
            "qk_nope_head_dim": 16,
            "v_head_dim": 12,
            "num_mtp_layers": 0,
            **ROUTED,
        },
        TOWER | {"pos_emb_height": 8, "pos_emb_width": 8},
        {
            "image_token_id": "<|media_pad|>",
            "video_token_id": "<|kimi_k25_video_placeholder|>",
            "vision_start_token_id": "<|media_begin|>",
            "vision_end_token_id": "<|media_end|>",
        },
        {"projection_hidden_size": 32},
        {
            "image_token": "<|media_pad|>",
            "video_token": "<|kimi_k25_video_placeholder|>",
            "begin": "<|media_begin|>",
            "content": "<|media_content|>",
            "end": "<|media_end|>",
            **THINK_TOKENS,
        },
        _thinks(
            "<|media_begin|>image<|media_content|><|media_pad|><|media_end|>",
            "thinking | default(true)",
            "<think>",
            "</think>",
        ),
    ),
    "gemma4": _gemma4(
        "Gemma4",
        GEMMA4_TOWER,
        6,
        {"channel": "<|channel>", "end_of_channel": "<channel|>"},
        _thinks(
            "<|image|>", "enable_thinking | default(false)", "<|channel>thought\\n", "<channel|>"
        ),
        num_kv_shared_layers=2,
        hidden_size_per_layer_input=8,
        use_bidirectional_attention=None,
    ),
    "gemma4_moe": _gemma4(
        "Gemma4",
        GEMMA4_TOWER,
        use_bidirectional_attention="vision",
        hidden_size_per_layer_input=0,
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
        enable_moe_block=True,
        num_experts=4,
        top_k_experts=2,
        moe_intermediate_size=32,
    ),
    "gemma4_unified": _gemma4(
        "Gemma4Unified",
        {"mm_embed_dim": 64, "mm_posemb_size": 64, "output_proj_dims": 64},
        use_bidirectional_attention="vision",
    ),
    "gemma3": SmallFamily(
        "Gemma3",
        _processor("Gemma3", _pictures("Gemma3Image", size=TILE), TOKENIZER, image_seq_length=4),
        {**TEXT, "query_pre_attn_scalar": 32, **THREE_LAYERS},
        TOWER | {"image_size": 56, "vision_use_head": False},
        {
            "boi_token_index": "<start_of_image>",
            "eoi_token_index": "<end_of_image>",
            "image_token_index": "<image_soft_token>",
        },
        {"mm_tokens_per_image": 4, "initializer_range": 0.2},
        {
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        _shown("<start_of_image>"),
    ),
    "mistral3": SmallFamily(
        "Mistral3",
        _processor(
            "Pixtral",
            _pictures(
                "PixtralImage",
                patch_size={"height": 14, "width": 14},
                size={"longest_edge": 560},
            ),
            TOKENIZER,
            patch_size=14,
            spatial_merge_size=2,
        ),
        TEXT | {"model_type": "mistral", "sliding_window": None},
        TOWER | {"model_type": "pixtral", "image_size": 560, "head_dim": 16},
        {"image_token_index": "[IMG]"},
        {"spatial_merge_size": 2},
        {
            "image_token": "[IMG]",
            "image_break_token": "[IMG_BREAK]",
            "image_end_token": "[IMG_END]",
            "think": "[THINK]",
            "end_of_think": "[/THINK]",
        },
        _thinks("[IMG]", "reasoning_effort | default('none') != 'none'", "[THINK]", "[/THINK]"),
    ),
    "idefics3": _idefics("Idefics3"),
    "smolvlm": _idefics("SmolVLM", _pictures("SmolVLMVideo", **IDEFICS_SIZES)),
    "ovis2": SmallFamily(
        "Ovis2",
        _processor(
            "Ovis2",
            _pictures("Ovis2Image", size=TILE, crop_to_patches=True, min_patches=1, max_patches=4),
            TOKENIZER,
            image_seq_length=4,
        ),
        TEXT | {"model_type": "qwen2"},
        TOWER | {"image_size": 56, "vocab_size": 48, "hidden_stride": 2},
        {
            "image_token_id": "<IMG_ATOM>",
            "visual_indicator_token_ids": list(OVIS_MARKS.values()),
        },
        {"hidden_size": 64},
        {"image_token": "<image>", "atom": "<IMG_ATOM>", **OVIS_MARKS},
        _shown("<image>"),
        sized=True,
    ),
    "lfm2_vl": SmallFamily(
        "Lfm2Vl",
        _processor(
            "Lfm2Vl",
            _pictures(
                "Lfm2VlImage",
                tile_size=128,
                min_image_tokens=4,
                max_image_tokens=16,
                max_tiles=4,
                min_tiles=2,
            ),
            TOKENIZER,
        ),
        {
            **TEXT,
            "model_type": "lfm2",
            "num_hidden_layers": 4,
            "layer_types": ["conv", "full_attention"] * 2,
            "block_auto_adjust_ff_dim": False,
            "norm_eps": 1e-5,
        },
        {
            **TOWER,
            "patch_size": 16,
            "model_type": "siglip2_vision_model",
            "num_patches": 64,
            "vision_use_head": False,
        },
        {"image_token_id": "<image>"},
        {"projector_hidden_size": 64},
        {
            "image_token": "<image>",
            "image_start_token": "<|image_start|>",
            "image_end_token": "<|image_end|>",
            "image_thumbnail_token": "<|img_thumbnail|>",
            **{
                f"tile_{r}{c}": f"<|img_row_{r}_col_{c}|>"
                for r in (1, 2, 3, 4)
                for c in (1, 2, 3, 4)
            },
        },
        _shown("<image>"),
    ),
    "minicpmv4_6": SmallFamily(
        "MiniCPMV4_6",
        _processor(
            "MiniCPMV4_6",
            _pictures("MiniCPMV4_6Image", **MINICPM_SIZES),
            _pictures("MiniCPMV4_6Video", **MINICPM_SIZES),
            TOKENIZER,
        ),
        QWEN3_5_TEXT | {"model_type": "qwen3_5_text"},
        TOWER | {"num_hidden_layers": 3, "image_size": 112},
        {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>"},
        {"insert_layer_id": 1, "image_size": 112},
        {
            "image_token": "<|image_pad|>",
            "video_token": "<|video_pad|>",
            "image_start_token": "<image>",
            "image_end_token": "</image>",
            "slice_start_token": "<slice>",
            "slice_end_token": "</slice>",
            "image_id_start_token": "<image_id>",
            "image_id_end_token": "</image_id>",
            **THINK_TOKENS,
        },
        _thinks("<|image_pad|>"),
    ),
    "aya_vision": SmallFamily(
        "AyaVision",
        _processor(
            "AyaVision",
            _pictures("GotOcr2Image", size=TILE, crop_to_patches=True, max_patches=4),
            TOKENIZER,
            patch_size=14,
            img_size=56,
            downsample_factor=2,
        ),
        {**TEXT, "model_type": "cohere2", **THREE_LAYERS},
        SIGLIP,
        {"image_token_index": "<|IMG_PATCH|>"},
        {"downsample_factor": 2},
        {
            "image": "<image>",
            "start": "<|START_OF_IMG|>",
            "end": "<|END_OF_IMG|>",
            "patch": "<|IMG_PATCH|>",
            "line": "<|IMG_LINE_BREAK|>",
            "tile": "TILE",
            "whole": "TILE_GLOBAL",
        },
        _shown("<image>"),
    ),
    "molmo2": SmallFamily(
        "Molmo2",
        _processor(
            "Molmo2",
            _pictures("Molmo2Image", size=TILE, max_crops=2, overlap_margins=[1, 1], patch_size=14),
            _pictures("Molmo2Video", size=TILE, patch_size=14),
            TOKENIZER,
        ),
        TEXT | {"additional_vocab_size": 8},
        TOWER | {"num_key_value_heads": 2, "head_dim": 16, "image_size": [56, 56]},
        {
            "image_start_token_id": "<im_start>",
            "low_res_image_start_token_id": "<low_res_im_start>",
            "image_end_token_id": "<im_end>",
            "image_patch_id": "<im_patch>",
            "frame_start_token_id": "<frame_start>",
            "frame_end_token_id": "<frame_end>",
        },
        {
            "adapter_config": {
                "vision_feature_layer": [1, 0],
                "hidden_size": 32,
                "num_attention_heads": 2,
                "num_key_value_heads": 2,
                "head_dim": 16,
                "intermediate_size": 64,
                "text_hidden_size": 64,
                "initializer_range": 0.2,
            },
            "initializer_range": 0.2,
        },
        {
            "image_token": "<|image|>",
            "video_token": "<|video|>",
            **{
                name: f"<{name}>"
                for name in (
                    "im_patch im_col im_start low_res_im_start frame_start im_end frame_end im_low"
                ).split()
            },
        },
        _shown("<|image|>"),
    ),
    "llava_onevision": SmallFamily(
        "LlavaOnevision",
        _processor(
            "LlavaOnevision",
            _pictures("LlavaOnevisionImage", size=LLAVA_SIZE, image_grid_pinpoints=LLAVA_GRIDS),
            TOKENIZER,
            _pictures("LlavaOnevisionVideo", size=LLAVA_SIZE),
            num_image_tokens=4,
            vision_feature_select_strategy="full",
        ),
        HEADLESS | {"model_type": "qwen2"},
        SIGLIP | {"image_size": 28},
        {"image_token_index": "<image>", "video_token_index": "<video>"},
        {"image_grid_pinpoints": LLAVA_GRIDS},
        {"image_token": "<image>", "video_token": "<video>"},
        _shown("<image>"),
    ),
    "paligemma": SmallFamily(
        "PaliGemma",
        _processor(
            "PaliGemma", _pictures("SiglipImage", size=TILE, image_seq_length=16), TOKENIZER
        ),
        TEXT | {"model_type": "gemma"},
        SIGLIP | {"projection_dim": 64},
        {"image_token_index": "<image>"},
        {"projection_dim": 64, "hidden_size": 64},
        {"image_token": "<image>"},
        _shown("<image>"),
        sized=True,
        first="<|endoftext|>",
    ),
    "llama4": SmallFamily(
        "Llama4",
        _processor(
            "Llama4",
            _pictures("Llama4Image", size=TILE, max_patches=4),
            TOKENIZER,
            patch_size=14,
        ),
        {
            **TEXT,
            "intermediate_size_mlp": 128,
            "num_hidden_layers": 4,
            "num_local_experts": 2,
            "attention_chunk_size": 64,
            "floor_scale": 64,
        },
        {
            **TOWER,
            "image_size": 56,
            "vision_output_dim": 32,
            "projector_input_dim": 32,
            "projector_output_dim": 32,
            "intermediate_size": 128,
        },
        {
            "boi_token_index": "<|image_start|>",
            "eoi_token_index": "<|image_end|>",
            "image_token_index": "<|patch|>",
        },
        special={
            name: f"<|{name}|>"
            for name in (
                "image image_start image_end patch tile_x_separator tile_y_separator".split()
            )
        },
        template=_shown("<|image|>"),
    ),
}


def __getattr__(name: str) -> Any:
    """Give, by the name of a family, what makes a small model of it on a device: so packages name their parts."""
    if name in SMALL_FAMILIES:
        return partial(small_family, name)
    raise AttributeError(name)
