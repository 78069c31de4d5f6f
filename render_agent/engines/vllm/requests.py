"""Requests as vLLM takes them: prompts in tokens with named pictures, and sampling parameters."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from PIL.Image import Image

from render_agent.dialogue.chat import pictures
from render_agent.engines.checkpoint.special_tokens import disarming
from render_agent.engines.engine import Request
from render_agent.engines.families.model_families import family_of
from render_agent.engines.families.pictures import QwenPictures
from render_agent.engines.families.thinking import reply_text
from render_agent.options import AUTO


@dataclass(frozen=True, slots=True)
class TokenPrompt:
    """A prompt in tokens, one placeholder a picture, and its pictures in order.

    names: of the pictures, the same for the same pixels; what was computed for them is found by it.
    guided: whether the reply is to be held to the request's schema.
    """

    ids: Sequence[int]
    pictures: Sequence[Image] = ()
    names: Sequence[str] = ()
    guided: bool = False

    def extended(self, ids: Sequence[int]) -> TokenPrompt:
        """Return the prompt with more tokens at its end."""
        return TokenPrompt([*self.ids, *ids], self.pictures, self.names)


class Prompts:
    """Makes prompts; a picture is named once a question, by its pixels.

    options: the engine options; those of the model's family are for its pictures.
    """

    def __init__(
        self, processor: Any, model_type: str, options: Mapping[str, Any], thinking: str = AUTO
    ) -> None:
        self.processor = processor
        self.tokenizer = processor.tokenizer
        self._disarmed = disarming(self.tokenizer)
        family = family_of(model_type)
        self._template = family.thinking.arguments(
            thinking, options.get("chat_template_kwargs") or {}
        )
        self.marks = family.thinking.marks(self.tokenizer)
        make = family.pictures
        # Scaled as --engine transformers scales them; what other families do is vLLM's own.
        self._form = QwenPictures(processor, options) if make is QwenPictures else None
        # With a parser vLLM itself lets a model think before it holds the reply to a schema.
        self._thinks_apart = bool(options.get("reasoning_parser"))
        self._names: dict[str, dict[tuple[Callable[[str], Image], str], str]] = {}

    def of(self, request: Request) -> TokenPrompt:
        """Return a request's prompt.

        ValueError where a text holds what stands for a picture. Raises whatever its pictures or its
        texts cause.
        """
        text: str = self.processor.apply_chat_template(
            self._disarmed(request.messages),
            tokenize=False,
            add_generation_prompt=True,
            **self._template,
        )
        files = pictures(list(request.messages))
        image = getattr(self.processor, "image_token", None)
        if image and text.count(image) != len(files):
            raise ValueError(f"a text holds {image}, which stands for a picture")
        names = self._names.setdefault(request.question_id, {})
        shown = [self._shown(request, file) for file in files]
        for file, picture in zip(files, shown, strict=True):
            if (request.picture, file) not in names:
                names[request.picture, file] = picture_name(picture)
        return TokenPrompt(
            ids=self.tokenizer(text)["input_ids"],
            pictures=shown,
            names=[names[request.picture, file] for file in files],
            guided=request.schema is not None
            and (self._thinks_apart or self.marks is None or not self.marks.left_open(text)),
        )

    def _shown(self, request: Request, file: str) -> Image:
        picture = request.picture(file).convert("RGB")
        return self._form.scaled(picture) if self._form else picture

    def choice(self, words: str) -> list[int]:
        """Return the tokens of an answer as the beginning of a reply."""
        ids: list[int] = self.tokenizer(words, add_special_tokens=False)["input_ids"]
        return ids

    def text(self, ids: Sequence[int], *, opened: bool = False) -> str:
        """Return tokens as the text of a reply, its thoughts in think blocks; opened: the prompt ended within one."""
        return reply_text(self.tokenizer, self.marks, ids, opened=opened)

    def forget(self, question_id: str) -> None:
        """Drop the names of a question's pictures."""
        self._names.pop(question_id, None)


def picture_name(picture: Image) -> str:
    """Return a name that two pictures share only where they share mode, size and pixels."""
    digest = hashlib.sha256(f"{picture.mode} {picture.size}".encode())
    digest.update(picture.tobytes())
    return digest.hexdigest()[:32]


SUPPRESSED_BIAS = -100.0
"""Added to the logits of tokens that must not be written; vLLM takes no more."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are drawn where the request does not say.

    top_k, top_p: 0 and 1 draw from all tokens. suppressed: tokens that are never written.
    """

    top_k: int
    top_p: float
    repetition_penalty: float
    suppressed: Sequence[int]

    @classmethod
    def published(
        cls, published: Mapping[str, Any], options: Mapping[str, Any], suppressed: Sequence[int]
    ) -> Sampling:
        """Return the model's published way, but for what the engine options say."""
        return cls(
            top_k=int(options.get("top_k", published.get("top_k", 0))),
            top_p=float(options.get("top_p", published.get("top_p", 1.0))),
            repetition_penalty=float(published.get("repetition_penalty", 1.0)),
            suppressed=suppressed,
        )

    def params(self, request: Request, sample: int, guided: bool) -> Any:
        """Return vLLM's parameters for one sample of a request."""
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams

        from render_agent.engines.transformers.constrained_decoding import grammar_of

        held = None
        if guided and request.schema is not None:
            held = StructuredOutputsParams(grammar=grammar_of(request.schema))
        budget = {}
        if request.thinking_budget is not None:
            budget = {"thinking_token_budget": request.thinking_budget}
        return SamplingParams(
            temperature=request.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            repetition_penalty=self.repetition_penalty,
            seed=sample_seed(request, sample) if request.temperature else None,
            max_tokens=request.most_tokens,
            **budget,
            logit_bias=dict.fromkeys(self.suppressed, SUPPRESSED_BIAS) or None,
            structured_outputs=held,
            detokenize=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )


def scoring_params(ids: Sequence[int]) -> Any:
    """Return vLLM's parameters that give the log-probabilities of these tokens, and no reply."""
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
    """Return the seed of one sample: it depends on seed, question, turn and sample alone."""
    name = f"{request.seed}\0{request.question_id}\0{request.turn}\0{sample}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
