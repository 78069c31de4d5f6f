"""How vLLM draws replies, or gives the log-probabilities of given tokens instead."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from render_agent.engines.base import Request

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
        return SamplingParams(
            temperature=request.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            repetition_penalty=self.repetition_penalty,
            seed=sample_seed(request, sample) if request.temperature else None,
            max_tokens=request.max_new_tokens,
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
