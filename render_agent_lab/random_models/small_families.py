"""A small model of every family that is known, with random weights, made where it is to run.

`doctor --probe` lets them answer, tests try them, `benchmarks/families.py` measures them. `initializer_range` is 0.2
and embeddings are untied: with the published values a model of this size repeats one token whatever it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from render_agent.engines.checkpoint.pretrained import Pretrained, choose_device
from render_agent_lab.random_models.published_shapes import SHAPES, SMALL
from render_agent_lab.random_models.random_model import CHAT_TEMPLATE, config_of, made_tokenizer

TEXT = {
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
TILE = {"height": 56, "width": 56}
NORM = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
QWEN_PICTURE = "<|vision_start|><|image_pad|><|vision_end|>"


def _thinks(
    placeholder: str = QWEN_PICTURE,
    switch: str = "enable_thinking | default(true)",
    opens: str = "<think>\\n",
    closes: str = "\\n</think>\\n\\n",
) -> str:
    """Return a template that opens a thought, or closes it at once where it is told; the history leaves thoughts out."""
    thought = f"assistant\\n{opens}' + ('' if ({switch}) else '{closes}')"
    template = CHAT_TEMPLATE.replace("assistant\\n'", thought)
    return template.replace(QWEN_PICTURE, placeholder)


THINK_TOKENS = {"think": "<think>", "end_of_think": "</think>"}
QWEN_SIZES = {"patch_size": 16, "temporal_patch_size": 2, "merge_size": 2}


def _tower(layers: int = 2, patch: int = 14, **more: Any) -> dict[str, Any]:
    """Return the configuration of a small vision tower, as most families name its parts."""
    sizes = {"hidden_size": 32, "intermediate_size": 64, "initializer_range": 0.2}
    parts = {"num_hidden_layers": layers, "num_attention_heads": 2, "patch_size": patch}
    return {**sizes, **parts, **more}


def _siglip(side: int = 56, **more: Any) -> dict[str, Any]:
    """Return that of a SigLIP, for pictures of so many pixels a side."""
    named: dict[str, Any] = {"model_type": "siglip_vision_model", "vision_use_head": False}
    return _tower(image_size=side, **named, **more)


def _qwen_tower(depth: int = 2, patch: int = 14, **more: Any) -> dict[str, Any]:
    """Return that of a Qwen-VL, or of a family that names its parts as Qwen does."""
    tower = _tower(patch=patch, spatial_merge_size=2, temporal_patch_size=2, out_hidden_size=64)
    named = {"num_hidden_layers": "depth", "num_attention_heads": "num_heads"}
    return {named.get(name, name): value for name, value in tower.items()} | {
        "depth": depth,
        **more,
    }


QWEN_TOWER = _qwen_tower(patch=16, num_position_embeddings=256)
AREA = {"shortest_edge": 32 * 32, "longest_edge": 4096 * 4096}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}

ROUTED = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
}


@dataclass(frozen=True, slots=True)
class SmallFamily:
    """How a small model of one family is made.

    kind: the class of the model. config, processor: give theirs, from transformers and a tokenizer. named: special
    tokens beside Qwen's, by the names that the processor knows them by. template: how it is spoken to.
    """

    kind: str
    config: Callable[[Any, Any], Any]
    processor: Callable[[Any, Any], Any]
    named: Mapping[str, str] = field(default_factory=dict)
    template: str = CHAT_TEMPLATE


def small_family(
    name: str, device: str = "cpu", dtype: str = "float32", seed: int = 0, tokenizer: Any = None
) -> Pretrained:
    """Return a small model of a family on a device, with its processor. KeyError for one that is not known.

    tokenizer: one that has Qwen's special tokens and the family's own, `named`; by default it is made. Raises whatever its classes raise, as where the library lacks one.
    """
    from render_agent.engines.checkpoint.torchvision_compat import cure_torchvision

    cure_torchvision()
    import torch
    import transformers

    made = SMALL_FAMILIES[name]
    tokenizer = tokenizer or made_tokenizer(**dict(made.named))
    processor = made.processor(transformers, tokenizer)
    processor.chat_template = made.template
    state = torch.get_rng_state()
    torch.manual_seed(seed)
    model = getattr(transformers, made.kind)(made.config(transformers, tokenizer)).eval()
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


def _written(placeholder: str) -> str:
    """Return the template with another placeholder of a picture."""
    return CHAT_TEMPLATE.replace(QWEN_PICTURE, placeholder)


def _ids(tokenizer: Any, **names: str) -> dict[str, int]:
    """Return the numbers of tokens by the names that a configuration knows them by."""
    return {name: tokenizer.convert_tokens_to_ids(text) for name, text in names.items()}


def _text(tokenizer: Any, **more: Any) -> dict[str, Any]:
    ends = _ids(
        tokenizer,
        bos_token_id="<|endoftext|>",
        eos_token_id="<|im_end|>",
        pad_token_id="<|endoftext|>",
    )
    return {**TEXT, **ends, "vocab_size": len(tokenizer), **more}


def _qwen_tokens(tokenizer: Any) -> dict[str, int]:
    return _ids(
        tokenizer,
        image_token_id="<|image_pad|>",
        video_token_id="<|video_pad|>",
        vision_start_token_id="<|vision_start|>",
        vision_end_token_id="<|vision_end|>",
    )


def _rope(*sections: int, **more: Any) -> dict[str, Any]:
    return {"rope_type": "default", "rope_theta": 1e6, "mrope_section": list(sections), **more}


def _qwen3_vl_moe(library: Any, tokenizer: Any) -> Any:
    return library.Qwen3VLMoeConfig(
        text_config=_text(
            tokenizer, rope_parameters=_rope(8, 4, 4, mrope_interleaved=True), **EXPERTS
        ),
        vision_config={**QWEN_TOWER, "deepstack_visual_indexes": [0, 1]},
        tie_word_embeddings=False,
        **_qwen_tokens(tokenizer),
    )


def _qwen_processor(kind: str, **sizes: int) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        every = {**QWEN_SIZES, **sizes}
        return getattr(library, kind)(
            library.Qwen2VLImageProcessor(size=dict(AREA), **every, **NORM),
            tokenizer,
            library.Qwen2VLVideoProcessor(**every, **NORM),
        )

    return made


def _qwen3_5(kind: str, **more: Any) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        return getattr(library, kind)(
            text_config=_text(
                tokenizer,
                num_hidden_layers=4,
                linear_key_head_dim=16,
                linear_value_head_dim=16,
                linear_num_key_heads=2,
                linear_num_value_heads=4,
                rope_parameters=_rope(4, 2, 2, mrope_interleaved=True, partial_rotary_factor=0.5),
                **more,
            ),
            vision_config=QWEN_TOWER,
            tie_word_embeddings=False,
            **_qwen_tokens(tokenizer),
        )

    return made


GLM_TOKENS = {"image_token": "<|image|>", "video_token": "<|video|>"}
GLM_FRAME = {
    "image_start_token": "<|begin_of_image|>",
    "image_end_token": "<|end_of_image|>",
    "video_start_token": "<|begin_of_video|>",
    "video_end_token": "<|end_of_video|>",
}


def _glm(kind: str, **more: Any) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        named = {f"{name}_id": text for name, text in {**GLM_TOKENS, **GLM_FRAME}.items()}
        return getattr(library, kind)(
            text_config=_text(
                tokenizer,
                head_dim=16,
                rope_parameters=_rope(4, 2, 2, partial_rotary_factor=1.0),
                **more,
            ),
            vision_config=_qwen_tower(image_size=56),
            tie_word_embeddings=False,
            **_ids(tokenizer, **named),
        )

    return made


def _glm_processor(kind: str) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        sizes = {"patch_size": 14, "temporal_patch_size": 2, "merge_size": 2}
        pictures = getattr(library, f"{kind}ImageProcessor")
        videos = getattr(library, f"{kind}VideoProcessor")
        return getattr(library, f"{kind}Processor")(
            pictures(size=dict(AREA), **sizes, **NORM), tokenizer, videos(**sizes, **NORM)
        )

    return made


GLM_TEMPLATE = _written("<|begin_of_image|><|image|><|end_of_image|>")


def _kimi(library: Any, tokenizer: Any) -> Any:
    return library.Kimi_K25Config(
        text_config=_text(
            tokenizer,
            model_type="deepseek_v3",
            head_dim=8,
            num_key_value_heads=4,
            q_lora_rank=16,
            kv_lora_rank=16,
            qk_rope_head_dim=8,
            qk_nope_head_dim=16,
            v_head_dim=12,
            num_mtp_layers=0,
            **ROUTED,
        ),
        vision_config=_tower(pos_emb_height=8, pos_emb_width=8),
        projection_hidden_size=32,
        tie_word_embeddings=False,
        **_ids(
            tokenizer,
            image_token_id="<|media_pad|>",
            video_token_id="<|kimi_k25_video_placeholder|>",
            vision_start_token_id="<|media_begin|>",
            vision_end_token_id="<|media_end|>",
        ),
    )


def _kimi_processor(library: Any, tokenizer: Any) -> Any:
    sizes = {"patch_size": 14, "merge_size": 2}
    return library.Kimi_K25Processor(
        library.Kimi_K25ImageProcessor(**sizes, **NORM),
        tokenizer,
        library.Kimi_K25VideoProcessor(**sizes, **NORM),
    )


GEMMA_TOKENS = {
    "boi_token": "<|image>",
    "eoi_token": "<image|>",
    "image_token": "<|image|>",
    "boa_token": "<|audio>",
    "eoa_token": "<audio|>",
    "audio_token": "<|audio|>",
}
WINDOW = 16
"""Tokens that a layer with a window sees: fewer than any dialogue has."""


def _gemma4(kind: str, tower: Mapping[str, Any], **more: Any) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        layers = more.get("num_hidden_layers", 4)
        return getattr(library, kind)(
            text_config=_text(
                tokenizer,
                **{
                    "num_hidden_layers": layers,
                    "head_dim": 16,
                    "global_head_dim": 32,
                    "sliding_window": WINDOW,
                    "layer_types": (["sliding_attention", "full_attention"] * layers)[:layers],
                    **more,
                },
            ),
            vision_config=dict(tower),
            audio_config=None,
            initializer_range=0.2,
            tie_word_embeddings=False,
            **_ids(
                tokenizer,
                boi_token_id="<|image>",
                eoi_token_id="<image|>",
                image_token_id="<|image|>",
                video_token_id="<|video|>",
                audio_token_id="<|audio|>",
                boa_token_id="<|audio>",
                eoa_token_index="<audio|>",
            ),
        )

    return made


def _gemma4_processor(kind: str) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        def part(name: str, **more: Any) -> Any:
            return getattr(library, f"{kind}{name}")(**more)

        return getattr(library, f"{kind}Processor")(
            part("AudioFeatureExtractor"),
            part("ImageProcessor", max_soft_tokens=70),
            tokenizer,
            part("VideoProcessor"),
            image_seq_length=70,
        )

    return made


GEMMA4_TOWER = _tower(
    patch=16,
    num_key_value_heads=2,
    head_dim=16,
    pooling_kernel_size=3,
    position_embedding_size=1024,
)
SMALL_GEMMA4 = {
    "num_hidden_layers": 6,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 8,
    "use_bidirectional_attention": None,
}


def _gemma3(library: Any, tokenizer: Any) -> Any:
    return library.Gemma3Config(
        text_config=_text(
            tokenizer,
            query_pre_attn_scalar=32,
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        ),
        vision_config=_tower(image_size=56, vision_use_head=False),
        mm_tokens_per_image=4,
        initializer_range=0.2,
        tie_word_embeddings=False,
        **_ids(
            tokenizer,
            boi_token_index="<start_of_image>",
            eoi_token_index="<end_of_image>",
            image_token_index="<image_soft_token>",
        ),
    )


def _gemma3_processor(library: Any, tokenizer: Any) -> Any:
    return library.Gemma3Processor(
        library.Gemma3ImageProcessor(size=TILE, **NORM),
        tokenizer,
        image_seq_length=4,
    )


MISTRAL_TOKENS = {
    "image_token": "[IMG]",
    "image_break_token": "[IMG_BREAK]",
    "image_end_token": "[IMG_END]",
}


def _mistral3(library: Any, tokenizer: Any) -> Any:
    return library.Mistral3Config(
        text_config=_text(tokenizer, model_type="mistral", sliding_window=None),
        vision_config=_tower(model_type="pixtral", image_size=560, head_dim=16),
        image_token_index=tokenizer.convert_tokens_to_ids("[IMG]"),
        spatial_merge_size=2,
        tie_word_embeddings=False,
    )


def _mistral3_processor(library: Any, tokenizer: Any) -> Any:
    pictures = library.PixtralImageProcessor(
        patch_size={"height": 14, "width": 14}, size={"longest_edge": 560}, **NORM
    )
    return library.PixtralProcessor(pictures, tokenizer, patch_size=14, spatial_merge_size=2)


IDEFICS_TOKENS = {
    "image": "<image>",
    "fake_image_token": "<fake_token_around_image>",
    "end_of_utterance_token": "<end_of_utterance>",
    "global_image_token": "<global-img>",
}


def _idefics(kind: str) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        return getattr(library, kind)(
            text_config=_text(tokenizer, model_type="llama"),
            vision_config=_tower(image_size=56),
            scale_factor=2,
            tie_word_embeddings=False,
            **_ids(tokenizer, image_token_id="<image>", pad_token_id="<|endoftext|>"),
        )

    return made


def _idefics_processor(kind: str) -> Callable[[Any, Any], Any]:
    def made(library: Any, tokenizer: Any) -> Any:
        sizes = {"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}}
        parts: list[Any] = [getattr(library, f"{kind}ImageProcessor")(**sizes, **NORM), tokenizer]
        if kind == "SmolVLM":
            parts.append(library.SmolVLMVideoProcessor(**sizes, **NORM))
        return getattr(library, f"{kind}Processor")(*parts, image_seq_len=4)

    return made


OVIS_TOKENS = {
    "image_token": "<image>",
    "atom": "<IMG_ATOM>",
    "start": "<IMG_START>",
    "grid": "<IMG_GRID>",
    "column": "<IMG_COL>",
    "row": "<IMG_ROW>",
    "end": "<IMG_END>",
}


def _ovis2(library: Any, tokenizer: Any) -> Any:
    marks = ("<IMG_START>", "<IMG_GRID>", "<IMG_COL>", "<IMG_ROW>", "<IMG_END>")
    return library.Ovis2Config(
        text_config=_text(tokenizer, model_type="qwen2"),
        vision_config=_tower(image_size=56, vocab_size=48, hidden_stride=2),
        visual_indicator_token_ids=tokenizer.convert_tokens_to_ids(list(marks)),
        vocab_size=len(tokenizer),
        hidden_size=64,
        tie_word_embeddings=False,
        **_ids(tokenizer, image_token_id="<IMG_ATOM>"),
    )


def _ovis2_processor(library: Any, tokenizer: Any) -> Any:
    pictures = library.Ovis2ImageProcessor(
        size=TILE, crop_to_patches=True, min_patches=1, max_patches=4, **NORM
    )
    return library.Ovis2Processor(pictures, tokenizer, image_seq_length=4)


LFM_TOKENS = {
    "image_token": "<image>",
    "image_start_token": "<|image_start|>",
    "image_end_token": "<|image_end|>",
    "image_thumbnail_token": "<|img_thumbnail|>",
    **{f"tile_{r}{c}": f"<|img_row_{r}_col_{c}|>" for r in (1, 2, 3, 4) for c in (1, 2, 3, 4)},
}


def _lfm2(library: Any, tokenizer: Any) -> Any:
    return library.Lfm2VlConfig(
        text_config=_text(
            tokenizer,
            model_type="lfm2",
            num_hidden_layers=4,
            layer_types=["conv", "full_attention"] * 2,
            block_auto_adjust_ff_dim=False,
            norm_eps=1e-5,
        ),
        vision_config=_tower(
            patch=16, model_type="siglip2_vision_model", num_patches=64, vision_use_head=False
        ),
        projector_hidden_size=64,
        tie_word_embeddings=False,
        **_ids(tokenizer, image_token_id="<image>"),
    )


def _lfm2_processor(library: Any, tokenizer: Any) -> Any:
    pictures = library.Lfm2VlImageProcessor(
        tile_size=128, min_image_tokens=4, max_image_tokens=16, max_tiles=4, min_tiles=2, **NORM
    )
    return library.Lfm2VlProcessor(pictures, tokenizer)


MINICPM_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "image_start_token": "<image>",
    "image_end_token": "</image>",
    "slice_start_token": "<slice>",
    "slice_end_token": "</slice>",
    "image_id_start_token": "<image_id>",
    "image_id_end_token": "</image_id>",
}


def _minicpm(library: Any, tokenizer: Any) -> Any:
    hybrid = _qwen3_5("Qwen3_5Config")(library, tokenizer).text_config
    return library.MiniCPMV4_6Config(
        text_config=hybrid.to_dict(),
        vision_config=_tower(3, image_size=112),
        insert_layer_id=1,
        image_size=112,
        tie_word_embeddings=False,
        **_ids(tokenizer, image_token_id="<|image_pad|>", video_token_id="<|video_pad|>"),
    )


def _minicpm_processor(library: Any, tokenizer: Any) -> Any:
    sizes = {"scale_resolution": 112, "patch_size": 14, "max_slice_nums": 4}
    return library.MiniCPMV4_6Processor(
        library.MiniCPMV4_6ImageProcessor(**sizes, **NORM),
        library.MiniCPMV4_6VideoProcessor(**sizes, **NORM),
        tokenizer,
    )


AYA_TOKENS = {
    "image": "<image>",
    "start": "<|START_OF_IMG|>",
    "end": "<|END_OF_IMG|>",
    "patch": "<|IMG_PATCH|>",
    "line": "<|IMG_LINE_BREAK|>",
    "tile": "TILE",
    "whole": "TILE_GLOBAL",
}


def _aya(library: Any, tokenizer: Any) -> Any:
    return library.AyaVisionConfig(
        text_config=_text(
            tokenizer,
            model_type="cohere2",
            sliding_window=WINDOW,
            layer_types=["sliding_attention", "sliding_attention", "full_attention"],
        ),
        vision_config=_siglip(),
        downsample_factor=2,
        image_token_index=tokenizer.convert_tokens_to_ids("<|IMG_PATCH|>"),
        tie_word_embeddings=False,
    )


def _aya_processor(library: Any, tokenizer: Any) -> Any:
    pictures = library.GotOcr2ImageProcessor(size=TILE, crop_to_patches=True, max_patches=4, **NORM)
    return library.AyaVisionProcessor(
        pictures, tokenizer, patch_size=14, img_size=56, downsample_factor=2
    )


def _qwen2_5(library: Any, tokenizer: Any) -> Any:
    text = {name: value for name, value in _text(tokenizer).items() if name != "head_dim"}
    return library.Qwen2_5_VLConfig(
        text_config={**text, "rope_parameters": _rope(4, 2, 2)},
        vision_config=_qwen_tower(3, window_size=56, fullatt_block_indexes=[1]),
        tie_word_embeddings=False,
        **_qwen_tokens(tokenizer),
    )


def _internvl(library: Any, tokenizer: Any) -> Any:
    return library.InternVLConfig(
        text_config=_text(tokenizer, model_type="qwen3"),
        vision_config=_tower(3, image_size=[56, 56]) | {"patch_size": [14, 14]},
        image_token_id=tokenizer.context_image_token_id,
        image_seq_length=4,
        tie_word_embeddings=False,
    )


def _internvl_processor(library: Any, tokenizer: Any) -> Any:
    pictures = library.GotOcr2ImageProcessor(
        size=TILE, crop_to_patches=True, max_patches=12, **NORM
    )
    videos = library.InternVLVideoProcessor(size=TILE, **NORM)
    return library.InternVLProcessor(pictures, tokenizer, videos, image_seq_length=4)


LLAVA_GRIDS = [[28, 28], [28, 56], [56, 28], [56, 56]]


def _llava(library: Any, tokenizer: Any) -> Any:
    return library.LlavaOnevisionConfig(
        text_config={
            name: value
            for name, value in _text(tokenizer, model_type="qwen2").items()
            if name != "head_dim"
        },
        vision_config=_siglip(28),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        video_token_index=tokenizer.convert_tokens_to_ids("<video>"),
        image_grid_pinpoints=LLAVA_GRIDS,
        tie_word_embeddings=False,
    )


def _llava_processor(library: Any, tokenizer: Any) -> Any:
    size = {"height": 28, "width": 28}
    return library.LlavaOnevisionProcessor(
        library.LlavaOnevisionImageProcessor(size=size, image_grid_pinpoints=LLAVA_GRIDS, **NORM),
        tokenizer,
        library.LlavaOnevisionVideoProcessor(size=size, **NORM),
        num_image_tokens=4,
        vision_feature_select_strategy="full",
    )


def _paligemma(library: Any, tokenizer: Any) -> Any:
    return library.PaliGemmaConfig(
        text_config=_text(tokenizer, model_type="gemma"),
        vision_config=_siglip(projection_dim=64),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vocab_size=len(tokenizer),
        projection_dim=64,
        hidden_size=64,
        tie_word_embeddings=False,
    )


def _paligemma_processor(library: Any, tokenizer: Any) -> Any:
    tokenizer.bos_token = "<|endoftext|>"
    pictures = library.SiglipImageProcessor(size=TILE, **NORM)
    pictures.image_seq_length = 16
    return library.PaliGemmaProcessor(pictures, tokenizer)


def _llama4(library: Any, tokenizer: Any) -> Any:
    return library.Llama4Config(
        text_config=_text(
            tokenizer,
            intermediate_size_mlp=128,
            num_hidden_layers=4,
            num_local_experts=2,
            attention_chunk_size=64,
            floor_scale=64,
        ),
        vision_config=_tower(
            image_size=56,
            vision_output_dim=32,
            projector_input_dim=32,
            projector_output_dim=32,
        )
        | {"intermediate_size": 128},
        tie_word_embeddings=False,
        **_ids(
            tokenizer,
            boi_token_index="<|image_start|>",
            eoi_token_index="<|image_end|>",
            image_token_index="<|patch|>",
        ),
    )


def _llama4_processor(library: Any, tokenizer: Any) -> Any:
    pictures = library.Llama4ImageProcessor(size=TILE, max_patches=4, **NORM)
    return library.Llama4Processor(pictures, tokenizer, patch_size=14)


def _qwen4(library: Any, tokenizer: Any) -> Any:
    return library.Qwen4ExpConfig(
        text_config=_text(
            tokenizer,
            num_hidden_layers=4,
            linear_key_head_dim=16,
            linear_value_head_dim=16,
            linear_num_key_heads=2,
            linear_num_value_heads=4,
            hc_count=2,
            hc_lowrank=8,
            indexer_n_heads=2,
            indexer_kv_heads=1,
            indexer_head_dim=16,
            indexer_budget=64,
            indexer_compress_ratio=16,
            rope_parameters=_rope(4, 2, 2, mrope_interleaved=True, partial_rotary_factor=0.5),
            **EXPERTS,
        ),
        vision_config=QWEN_TOWER,
        tie_word_embeddings=False,
        **_qwen_tokens(tokenizer),
    )


def _molmo2(library: Any, tokenizer: Any) -> Any:
    return library.Molmo2Config(
        text_config=_text(tokenizer, additional_vocab_size=8),
        vision_config=_tower(num_key_value_heads=2, head_dim=16, image_size=[56, 56]),
        adapter_config={
            "vision_feature_layer": [1, 0],
            "hidden_size": 32,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "intermediate_size": 64,
            "text_hidden_size": 64,
            "initializer_range": 0.2,
        },
        initializer_range=0.2,
        tie_word_embeddings=False,
        **_ids(
            tokenizer,
            image_start_token_id="<im_start>",
            low_res_image_start_token_id="<low_res_im_start>",
            image_end_token_id="<im_end>",
            image_patch_id="<im_patch>",
            frame_start_token_id="<frame_start>",
            frame_end_token_id="<frame_end>",
        ),
    )


def _molmo2_processor(library: Any, tokenizer: Any) -> Any:
    pictures = library.Molmo2ImageProcessor(
        size=TILE, max_crops=2, overlap_margins=[1, 1], patch_size=14, **NORM
    )
    videos = library.Molmo2VideoProcessor(size=TILE, patch_size=14, **NORM)
    return library.Molmo2Processor(pictures, videos, tokenizer)


SMALL_FAMILIES: Mapping[str, SmallFamily] = {
    "qwen3_vl": SmallFamily(
        "Qwen3VLForConditionalGeneration",
        lambda library, tokenizer: config_of(SHAPES[SMALL], tokenizer),
        _qwen_processor("Qwen3VLProcessor"),
    ),
    "qwen3_vl_moe": SmallFamily(
        "Qwen3VLMoeForConditionalGeneration",
        _qwen3_vl_moe,
        _qwen_processor("Qwen3VLProcessor"),
    ),
    "qwen2_5_vl": SmallFamily(
        "Qwen2_5_VLForConditionalGeneration",
        _qwen2_5,
        _qwen_processor("Qwen2_5_VLProcessor", patch_size=14),
    ),
    "internvl": SmallFamily(
        "InternVLForConditionalGeneration",
        _internvl,
        _internvl_processor,
        {
            "start_image_token": "<img>",
            "end_image_token": "</img>",
            "context_image_token": "<IMG_CONTEXT>",
            "video_token": "<video>",
        },
        _written("<IMG_CONTEXT>\\n"),
    ),
    "qwen3_5": SmallFamily(
        "Qwen3_5ForConditionalGeneration",
        _qwen3_5("Qwen3_5Config"),
        _qwen_processor("Qwen3VLProcessor"),
        THINK_TOKENS,
        _thinks(),
    ),
    "qwen3_5_moe": SmallFamily(
        "Qwen3_5MoeForConditionalGeneration",
        _qwen3_5("Qwen3_5MoeConfig", **EXPERTS),
        _qwen_processor("Qwen3VLProcessor"),
    ),
    "qwen4_exp": SmallFamily(
        "Qwen4ExpForConditionalGeneration",
        _qwen4,
        _qwen_processor("Qwen3VLProcessor"),
        THINK_TOKENS,
        _thinks(),
    ),
    "glm4v": SmallFamily(
        "Glm4vForConditionalGeneration",
        _glm("Glm4vConfig"),
        _glm_processor("Glm4v"),
        {**GLM_TOKENS, **GLM_FRAME},
        GLM_TEMPLATE,
    ),
    "glm4v_moe": SmallFamily(
        "Glm4vMoeForConditionalGeneration",
        _glm("Glm4vMoeConfig", **{**ROUTED, "n_group": 1}),
        _glm_processor("Glm4v"),
        {**GLM_TOKENS, **GLM_FRAME},
        GLM_TEMPLATE,
    ),
    "glm46v": SmallFamily(
        "Glm46VForConditionalGeneration",
        _glm("Glm46VConfig"),
        _glm_processor("Glm46V"),
        {**GLM_TOKENS, **GLM_FRAME, **THINK_TOKENS},
        _thinks("<|begin_of_image|><|image|><|end_of_image|>"),
    ),
    "kimi_k25": SmallFamily(
        "Kimi_K25ForConditionalGeneration",
        _kimi,
        _kimi_processor,
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
    "gemma4": SmallFamily(
        "Gemma4ForConditionalGeneration",
        _gemma4("Gemma4Config", GEMMA4_TOWER, **SMALL_GEMMA4),
        _gemma4_processor("Gemma4"),
        {**GEMMA_TOKENS, "channel": "<|channel>", "end_of_channel": "<channel|>"},
        _thinks(
            "<|image|>",
            "enable_thinking | default(false)",
            "<|channel>thought\\n",
            "<channel|>",
        ),
    ),
    "gemma4_moe": SmallFamily(
        "Gemma4ForConditionalGeneration",
        _gemma4(
            "Gemma4Config",
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
        _gemma4_processor("Gemma4"),
        GEMMA_TOKENS,
        _written("<|image|>"),
    ),
    "gemma4_unified": SmallFamily(
        "Gemma4UnifiedForConditionalGeneration",
        _gemma4(
            "Gemma4UnifiedConfig",
            {"mm_embed_dim": 64, "mm_posemb_size": 64, "output_proj_dims": 64},
            use_bidirectional_attention="vision",
        ),
        _gemma4_processor("Gemma4Unified"),
        GEMMA_TOKENS,
        _written("<|image|>"),
    ),
    "gemma3": SmallFamily(
        "Gemma3ForConditionalGeneration",
        _gemma3,
        _gemma3_processor,
        {
            "boi_token": "<start_of_image>",
            "eoi_token": "<end_of_image>",
            "image_token": "<image_soft_token>",
        },
        _written("<start_of_image>"),
    ),
    "mistral3": SmallFamily(
        "Mistral3ForConditionalGeneration",
        _mistral3,
        _mistral3_processor,
        {**MISTRAL_TOKENS, "think": "[THINK]", "end_of_think": "[/THINK]"},
        _thinks(
            "[IMG]",
            "reasoning_effort | default('none') != 'none'",
            "[THINK]",
            "[/THINK]",
        ),
    ),
    "idefics3": SmallFamily(
        "Idefics3ForConditionalGeneration",
        _idefics("Idefics3Config"),
        _idefics_processor("Idefics3"),
        IDEFICS_TOKENS,
        _written("<image>"),
    ),
    "smolvlm": SmallFamily(
        "SmolVLMForConditionalGeneration",
        _idefics("SmolVLMConfig"),
        _idefics_processor("SmolVLM"),
        IDEFICS_TOKENS,
        _written("<image>"),
    ),
    "ovis2": SmallFamily(
        "Ovis2ForConditionalGeneration",
        _ovis2,
        _ovis2_processor,
        OVIS_TOKENS,
        _written("<image>"),
    ),
    "lfm2_vl": SmallFamily(
        "Lfm2VlForConditionalGeneration", _lfm2, _lfm2_processor, LFM_TOKENS, _written("<image>")
    ),
    "minicpmv4_6": SmallFamily(
        "MiniCPMV4_6ForConditionalGeneration",
        _minicpm,
        _minicpm_processor,
        {**MINICPM_TOKENS, **THINK_TOKENS},
        _thinks("<|image_pad|>"),
    ),
    "aya_vision": SmallFamily(
        "AyaVisionForConditionalGeneration", _aya, _aya_processor, AYA_TOKENS, _written("<image>")
    ),
    "molmo2": SmallFamily(
        "Molmo2ForConditionalGeneration",
        _molmo2,
        _molmo2_processor,
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
        _written("<|image|>"),
    ),
    "llava_onevision": SmallFamily(
        "LlavaOnevisionForConditionalGeneration",
        _llava,
        _llava_processor,
        {"image_token": "<image>", "video_token": "<video>"},
        _written("<image>"),
    ),
    "paligemma": SmallFamily(
        "PaliGemmaForConditionalGeneration",
        _paligemma,
        _paligemma_processor,
        {"image_token": "<image>"},
        _written("<image>"),
    ),
    "llama4": SmallFamily(
        "Llama4ForConditionalGeneration",
        _llama4,
        _llama4_processor,
        {
            name: f"<|{name}|>"
            for name in (
                "image image_start image_end patch tile_x_separator tile_y_separator".split()
            )
        },
        _written("<|image|>"),
    ),
}


def __getattr__(name: str) -> Any:
    """Give, by the name of a family, what makes a small model of it on a device: so packages name their parts."""
    if name in SMALL_FAMILIES:
        return partial(small_family, name)
    raise AttributeError(name)
