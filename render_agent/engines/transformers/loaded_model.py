"""A model in memory with all that goes with it: its inputs, its tokens, its limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from render_agent.engines.base import Request
from render_agent.engines.transformers.sampling import Truncation
from render_agent.engines.transformers.tokenization import DialogueTensors, PreparedPrompt

if TYPE_CHECKING:
    from render_agent.engines.transformers.guarded_call import Fault
    from render_agent.engines.transformers.teacher_forcing import Script


@dataclass(eq=False)
class LoadedModel:
    """A model on its device, what makes its inputs, and what its replies are made of.

    ends: the tokens that end a reply. pad: the one that fills up shorter rows. suppressed: those
    that must not stand in a reply. truncation: of sampling. guides: what holds replies to a schema,
    None where nothing does. script: gives the replies beforehand, for measurements. max_len: tokens
    of a dialogue at the most, reply included; None where there is no limit. description: what
    identifies it.
    """

    model: Any
    inputs: DialogueTensors
    tokenizer: Any
    ends: Sequence[int]
    pad: int
    suppressed: Sequence[int]
    truncation: Truncation
    guides: Any = None
    script: Script | None = None
    max_len: int | None = None
    description: Mapping[str, Any] = field(default_factory=dict)

    def describe(self) -> dict[str, Any]:
        """Return what identifies the model as it runs: its weights, place, libraries, way of sampling."""
        return {
            **self.description,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "device": str(self.model.device),
            "top_k": self.truncation.top_k,
            "top_p": self.truncation.top_p,
        }

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of a reply's tokens, special ones left out."""
        words: str = self.tokenizer.decode(
            list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        return words

    def too_long(self, tokens: int) -> str | None:
        """Return in one sentence why a prompt of so many tokens cannot be answered; None where it can."""
        if self.max_len is None or tokens < self.max_len:
            return None
        return (
            f"the dialogue has {tokens} tokens and the model reads {self.max_len} at the most: raise"
            " --max-model-len where it is lower than the model's own, or lower --image-size or"
            " --max-turns"
        )

    def reply_limit(self, request: Request, tokens: int) -> int:
        """Return how many tokens a reply to a prompt of so many may have."""
        if self.max_len is None:
            return request.max_new_tokens
        return min(request.max_new_tokens, max(1, self.max_len - tokens))

    def forced(self, request: Request) -> list[int] | None:
        """Return the tokens that a reply is to be, where the script says so."""
        if self.script is None:
            return None
        from render_agent.engines.transformers.teacher_forcing import forced_tokens

        return forced_tokens(self.script, request, self.tokenizer, self.ends)

    def alone(self, fault: Fault, prompt: PreparedPrompt) -> str:
        """Return why a prompt failed that had a call of the model to itself."""
        if not fault.out_of_memory:
            return f"the model failed on this prompt: {fault.reason}"
        return (
            f"one request with {prompt.picture_count} pictures does not fit into the memory of"
            f" {self.model.device}: lower --image-size or --max-turns, or use a smaller model"
            " (a lower --batch-size cannot help, it was alone)"
        )
