"""Converts requests to vLLM prompts (token ids and images with content hashes) and sampling parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL.Image import Image

from render_agent.dialogue.chat import image_files
from render_agent.engines.checkpoint.special_tokens import special_token_escaper
from render_agent.engines.engine import Request
from render_agent.engines.families.images import QwenImages
from render_agent.engines.families.model_families import family_of
from render_agent.engines.families.thinking import reply_text
from render_agent.options import AUTO

# Added to the logits of suppressed tokens; the lowest value that vLLM accepts.
SUPPRESSED_BIAS = -100.0


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A tokenized prompt with one placeholder per image."""

    ids: Sequence[int]
    images: Sequence[Image] = ()
    hashes: Sequence[str] = ()
    """Content hashes of the images, the keys of vLLM's image caches."""
    guided: bool = False
    """True if the reply is constrained to the request's schema."""

    def extended(self, ids: Sequence[int]) -> TokenPrompt:
        return TokenPrompt([*self.ids, *ids], self.images, self.hashes)


class Prompts:
    """Builds prompts. Every image is hashed once per question."""

    def __init__(
        self, processor: Any, model_type: str, options: Mapping[str, Any], thinking: str = AUTO
    ) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self._escape_special_tokens = special_token_escaper(self.tokenizer)
        family = family_of(model_type)
        self._template = family.thinking.arguments(
            thinking, options.get("chat_template_kwargs") or {}
        )
        self.marks = family.thinking.marks(self.tokenizer)
        is_qwen = family.images is QwenImages
        # Qwen images are resized as in --engine transformers; vLLM preprocesses those of other families.
        self._form = QwenImages(processor, options) if is_qwen else None
        # With a reasoning parser, vLLM applies the schema only after the thought.
        self._has_reasoning_parser = bool(options.get("reasoning_parser"))
        self._hashes: dict[str, dict[tuple[Callable[[str], Image], str], str]] = {}

    def build(self, request: Request) -> TokenPrompt:
        """Build the prompt of a request. Raises ValueError."""
        text: str = self.processor.apply_chat_template(
            self._escape_special_tokens(request.messages),
            tokenize=False,
            add_generation_prompt=True,
            **({} if request.tools is None else {"tools": request.tools}),
            **self._template,
        )
        files = image_files(list(request.messages))
        image = getattr(self.processor, "image_token", None)
        if image and text.count(image) != len(files):
            raise ValueError(f"a text contains the image placeholder {image}")
        hashes = self._hashes.setdefault(request.dialogue_id, {})
        images = [self._image(request, file) for file in files]
        for file, image in zip(files, images, strict=True):
            if (request.load_image, file) not in hashes:
                hashes[request.load_image, file] = image_hash(image)
        return TokenPrompt(
            ids=self.tokenizer(text)["input_ids"],
            images=images,
            hashes=[hashes[request.load_image, file] for file in files],
            guided=request.schema is not None
            and (
                self._has_reasoning_parser or self.marks is None or not self.marks.left_open(text)
            ),
        )

    def _image(self, request: Request, file: str) -> Image:
        image = request.load_image(file).convert("RGB")
        return self._form.resize(image) if self._form else image

    def choice_tokens(self, text: str) -> list[int]:
        """Return the tokens of a choice as the beginning of a reply."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    def text(self, ids: Sequence[int], *, opened: bool = False) -> str:
        """Decode the tokens of a reply as `reply_text`; `opened` is True if the prompt ended inside a thought."""
        return reply_text(self.tokenizer, self.marks, ids, opened=opened)

    def retire(self, dialogue_id: str) -> None:
        """Drop the hashes of a question's images."""
        self._hashes.pop(dialogue_id, None)


def image_hash(image: Image) -> str:
    """Return a hash of an image's mode, size and pixels."""
    digest = hashlib.sha256(f"{image.mode} {image.size}".encode())
    digest.update(image.tobytes())
    return digest.hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling parameters that do not depend on the request."""

    top_k: int
    """Number of most likely tokens to sample from; 0 for all."""
    top_p: float
    """Probability mass of the tokens to sample from; 1 for all."""
    repetition_penalty: float
    suppressed: Sequence[int]
    """Tokens that are never generated."""

    @classmethod
    def published(
        cls, published: Mapping[str, Any], options: Mapping[str, Any], suppressed: Sequence[int]
    ) -> Sampling:
        """Return the publisher's defaults, overridden by the engine options."""
        return cls(
            top_k=int(options.get("top_k", published.get("top_k", 0))),
            top_p=float(options.get("top_p", published.get("top_p", 1.0))),
            repetition_penalty=float(published.get("repetition_penalty", 1.0)),
            suppressed=suppressed,
        )

    def params(self, request: Request, sample: int, guided: bool) -> Any:
        """Return vLLM's sampling parameters for one sample of a request."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        from render_agent.engines.transformers.constrained_decoding import build_grammar

        structured_outputs = None
        if guided and request.schema is not None:
            structured_outputs = StructuredOutputsParams(grammar=build_grammar(request.schema))
        budget = {}
        if request.thinking_budget is not None:
            budget = {"thinking_token_budget": request.thinking_budget}
        return SamplingParams(
            temperature=request.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            repetition_penalty=self.repetition_penalty,
            seed=sample_seed(request, sample) if request.temperature else None,
            max_tokens=request.token_limit,
            **budget,
            logit_bias=dict.fromkeys(self.suppressed, SUPPRESSED_BIAS) or None,
            structured_outputs=structured_outputs,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def scoring_params(ids: Sequence[int]) -> Any:
    """Return vLLM's sampling parameters that return the log-probabilities of these tokens."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    return SamplingParams(
        temperature=0,
        max_tokens=1,
        detokenize=False,
        logprob_token_ids=list(ids),
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def sample_seed(request: Request, sample: int) -> int:
    """Return the seed of one sample, which depends only on the run's seed, the dialogue, the turn and the sample."""
    name = f"{request.seed}\0{request.dialogue_id}\0{request.turn}\0{sample}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
