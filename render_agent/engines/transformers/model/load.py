"""Loads a model by name, together with its processor, special tokens and limits."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from render_agent.dialogue import chat
from render_agent.engines.checkpoint.locate import find_model
from render_agent.engines.checkpoint.pretrained import Pretrained, check_names, load_pretrained
from render_agent.engines.checkpoint.special_tokens import end_tokens, image_token_ids, pad_token
from render_agent.engines.engine import Request
from render_agent.engines.families.images import TEXT_OUTPUTS
from render_agent.engines.families.model_families import family_of
from render_agent.engines.families.thinking import Marks, reply_text
from render_agent.engines.memory.faults import Fault, free_memory, is_out_of_memory
from render_agent.engines.transformers.attention import unmask_padding_rows
from render_agent.engines.transformers.constrained_decoding import make_guides
from render_agent.engines.transformers.model.inputs import PreparedPrompt, PromptBuilder
from render_agent.engines.transformers.sampling import Truncation
from render_agent.engines.transformers.transformers_options import (
    check_options,
    position_limit,
)
from render_agent.util.reasons import first_line

if TYPE_CHECKING:
    import torch

    from render_agent.engines.transformers.sampling import Script

LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class LoadedModel:
    """A model on its device, with everything needed to build prompts and to read replies."""

    model: Any
    inputs: PromptBuilder
    tokenizer: Any
    ends: Sequence[int]  # tokens that end a reply
    pad: int  # padding token
    suppressed: Sequence[int]  # tokens that must not occur in a reply
    truncation: Truncation
    marks: Marks | None = None  # marks of thoughts; None if the model has none
    guides: Any = None  # constrains replies to a schema; None if that is not supported
    script: Script | None = None  # returns predetermined replies, for benchmarks
    max_len: int | None = None
    """Maximum tokens of a dialogue including the reply; None for no limit."""

    def thoughts(self) -> str | None:
        """Describe the marks of thoughts, and how the chat template renders earlier ones; None without marks."""
        if self.marks is None:
            return None
        user = chat.message("user", chat.text("Where is the door?"))
        history = self.inputs.render_template([user, chat.assistant("{}"), user], generate=False)
        how = "empty" if self.marks.opens in history else "omitted"
        marks = f"between {self.marks.opens} and {self.marks.closes}"
        return f"{marks}; the chat template renders earlier ones as {how}"

    def text(self, ids: Sequence[int], prompt: str = "") -> str:
        """Decode a reply to a prompt, which may end inside a thought, without special tokens; thoughts are think
        blocks.
        """
        ids = list(ids[:-1] if ids and ids[-1] in self.ends else ids)
        opened = self.marks is not None and self.marks.left_open(prompt)
        return reply_text(self.tokenizer, self.marks, ids, opened=opened)

    def length_error(self, tokens: int) -> str | None:
        """Return an error message if a prompt with this many tokens is too long; otherwise None."""
        if self.max_len is None or tokens < self.max_len:
            return None
        return (
            f"the dialogue has {tokens} tokens, but the limit is {self.max_len}. Lower --image-size or"
            " --max-turns, or raise --max-model-len if it is below the model's own limit."
        )

    def reply_limit(self, request: Request, tokens: int) -> int:
        """Return the token limit, including thoughts, of the reply to a prompt with this many tokens."""
        limit = request.max_new_tokens if self.marks is None else request.token_limit
        return limit if self.max_len is None else min(limit, max(1, self.max_len - tokens))

    def prepare(self, request: Request, more: int = 0) -> PreparedPrompt | str:
        """Return the prompt of a request, after which `more` tokens will follow, or an error message.

        Running out of memory frees memory and tries once more.
        """
        for retries_left in (1, 0):
            try:
                prompt = self.inputs.prepare(request)
                return self.length_error(len(prompt.ids) + more) or prompt
            # An image comes from a file and passes through three libraries; any error concerns only this request.
            except Exception as error:
                LOG.warning("%s: the prompt failed", request.dialogue_id, exc_info=True)
                reason, may_fit = first_line(error), is_out_of_memory(error)
            if not (retries_left and may_fit):
                break
            free_memory()
        return f"the prompt could not be prepared: {reason}"

    def forced_tokens(self, request: Request) -> list[int] | None:
        """Return the predetermined tokens of the reply, including an end token; None without a script."""
        if self.script is None:
            return None
        ids = self.tokenizer(self.script(request), add_special_tokens=False)["input_ids"]
        return [*ids, *self.ends[:1]]

    def logits(self, tensors: Any, written: Sequence[int] = ()) -> torch.Tensor:
        """Return the logits after each prompt, and after each of the tokens that follow it, computed without a cache.

        They are (prompts, written tokens + 1, vocabulary) float32. Raises any error of the model.
        """
        import torch

        if written:
            # All other inputs, such as token types, are 0 for a text token.
            rows: Mapping[str, Sequence[int]] = {
                "input_ids": list(written),
                "attention_mask": [1] * len(written),
            }
            for name in TEXT_OUTPUTS & tensors.keys():
                more = torch.tensor([rows.get(name, [0] * len(written))] * len(tensors[name]))
                tensors[name] = torch.cat([tensors[name], more.to(tensors[name])], dim=1)
        tensors = tensors.to(device=self.model.device, dtype=self.model.dtype)
        tensors.pop("labels", None)
        length = tensors["input_ids"].shape[1]
        # Given a number instead, Gemma 4's class masks several tokens wrongly (transformers 5.23).
        last = torch.arange(length - len(written) - 1, length, device=self.model.device)
        with torch.inference_mode():
            logits: torch.Tensor = self.model(**tensors, logits_to_keep=last).logits
        return logits[:, -len(last) :].float()

    def close(self) -> None:
        self.model = None
        free_memory()

    def invalid_scores(self) -> str:
        """Return the error message for scores of tokens that are NaN or infinite."""
        dtype = str(self.model.dtype).removeprefix("torch.")
        wider = {"float16": "bfloat16 or float32", "bfloat16": "float32"}.get(dtype)
        remedy = (
            f"Use --dtype {wider}; if that does not help, the weights are damaged: download them again."
            if wider
            else "The weights are damaged, or need another --dtype: download them again."
        )
        return f"the model's scores are not numbers (NaN or infinity) in {dtype}. {remedy}"

    def fault_text(self, fault: Fault, prompt: PreparedPrompt) -> str:
        """Return the error message for a prompt that failed in a call without other prompts."""
        if not fault.out_of_memory:
            return f"the model failed on this prompt: {fault.reason}"
        return (
            f"one request with {prompt.image_count} images does not fit in the memory of"
            f" {self.model.device}. Lower --image-size or --max-turns, or use a smaller model;"
            " a lower --batch-size does not help."
        )


def open_model(
    model: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str = "auto",  # auto (the first GPU, or the CPU), cpu, mps, cuda or cuda:N
    max_model_len: int | None = None,
    options: Mapping[str, Any] | None = None,
    thinking: str = "auto",
    pretrained: Pretrained | None = None,
    script: Script | None = None,
) -> LoadedModel:
    """Load a model: a bundled name, a directory, or a name on the hub, with the options of a run.

    Raises SetupError if it cannot be loaded, and UsageError if an option is not valid.
    """
    options = dict(options or {})
    check_names(dtype, device)
    if pretrained is None:
        located = find_model(model, revision)
        model_type = str(located.config.get("model_type"))
        check_options(options, model_type)
        pretrained = load_pretrained(located, dtype, device, options, thinking)
    else:
        model_type = pretrained.model.config.model_type
        check_options(options, model_type)
        family_of(model_type).thinking.check(pretrained.processor, thinking)
    thinking_format = family_of(model_type).thinking
    arguments = thinking_format.arguments(thinking, options.get("chat_template_kwargs") or {})
    unmask_padding_rows(pretrained.model)
    tokenizer = pretrained.processor.tokenizer
    ends = end_tokens(pretrained.model, tokenizer)
    marks = thinking_format.marks(tokenizer)
    loaded = LoadedModel(
        model=pretrained.model,
        inputs=PromptBuilder(
            pretrained.processor,
            model_type,
            options={**options, "chat_template_kwargs": arguments},
            pins=pretrained.model.device.type == "cuda",
        ),
        tokenizer=tokenizer,
        ends=ends,
        pad=pad_token(tokenizer, ends),
        suppressed=image_token_ids(pretrained.model.config, tokenizer),
        truncation=Truncation(
            int(options.get("top_k", pretrained.top_k)),
            float(options.get("top_p", pretrained.top_p)),
        ),
        marks=marks,
        # Predetermined replies are not constrained.
        guides=None if script else make_guides(pretrained.model, tokenizer, ends, marks),
        script=script,
        max_len=max_model_len or position_limit(pretrained.model.config),
    )
    if (thoughts := loaded.thoughts()) is not None:
        LOG.info("thoughts: %s", thoughts)
    return loaded
