"""Load a model: its name and the options → the model in memory with all that goes with it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from render_agent.dialogue import chat
from render_agent.engines.checkpoint.locate import describe_found, find_model
from render_agent.engines.checkpoint.pretrained import Pretrained, check_names, load_pretrained
from render_agent.engines.checkpoint.special_tokens import end_tokens, pad_token, picture_tokens
from render_agent.engines.engine import Request
from render_agent.engines.families.model_families import family_of
from render_agent.engines.families.thinking import Marks, reply_text
from render_agent.engines.memory.faults import Fault, free_memory, is_out_of_memory
from render_agent.engines.transformers.attention import leave_no_row_blind
from render_agent.engines.transformers.constrained_decoding import guides_of
from render_agent.engines.transformers.model.inputs import PreparedPrompt, PromptBuilder
from render_agent.engines.transformers.sampling import Truncation
from render_agent.engines.transformers.transformers_options import (
    check_options,
    position_limit,
    refuse_tensor_parallel,
)
from render_agent.options import AUTO
from render_agent.util.reasons import first_line

if TYPE_CHECKING:
    from render_agent.engines.transformers.sampling import Script

LOG = logging.getLogger(__name__)


@dataclass(eq=False)
class LoadedModel:
    """A model on its device, what makes its inputs, and what its replies are made of.

    marks: those of its thoughts, None where it has none. ends: the tokens that end a reply. pad: the one that fills
    up shorter rows. suppressed: those that must not stand in a reply. truncation: of sampling. guides: what holds
    replies to a schema, None where nothing does. script: gives the replies beforehand, for measurements. max_len:
    tokens of a dialogue at the most, reply included; None where there is no limit. description: what identifies it.
    """

    model: Any
    inputs: PromptBuilder
    tokenizer: Any
    ends: Sequence[int]
    pad: int
    suppressed: Sequence[int]
    truncation: Truncation
    marks: Marks | None = None
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
            "chat_template_kwargs": dict(self.inputs.template),
            "thoughts": self.thoughts(),
        }

    def thoughts(self) -> str | None:
        """Return in words where thoughts stand, and what the chat template puts in place of earlier ones.

        No thought is fed back; a template may write an empty one for it. None for a model that does not think.
        """
        if self.marks is None:
            return None
        user = chat.message("user", chat.text("Where is the door?"))
        history = self.inputs.written([user, chat.assistant("{}"), user], generate=False)
        instead = "an empty one" if self.marks.opens in history else "nothing"
        return (
            f"between {self.marks.opens} and {self.marks.closes}; in the history {instead} stands for earlier ones,"
            " as the chat template has it"
        )

    def text(self, ids: Sequence[int], prompt: str = "") -> str:
        """Return the text of a reply's tokens, special ones left out, its thoughts in think blocks.

        prompt: the text that it replies to, which may have opened a thought.
        """
        ids = list(ids[:-1] if ids and ids[-1] in self.ends else ids)
        opened = self.marks is not None and self.marks.left_open(prompt)
        return reply_text(self.tokenizer, self.marks, ids, opened=opened)

    def length_error(self, tokens: int) -> str | None:
        """Return in one sentence why a prompt of so many tokens cannot be answered; None where it can."""
        if self.max_len is None or tokens < self.max_len:
            return None
        return (
            f"the dialogue has {tokens} tokens and the model reads {self.max_len} at the most: raise"
            " --max-model-len where it is lower than the model's own, or lower --image-size or"
            " --max-turns"
        )

    def reply_limit(self, request: Request, tokens: int) -> int:
        """Return how many tokens a reply to a prompt of so many may have, what it thinks included."""
        most = request.max_new_tokens if self.marks is None else request.most_tokens
        return most if self.max_len is None else min(most, max(1, self.max_len - tokens))

    def prepare(self, request: Request, more: int = 0, again: bool = True) -> PreparedPrompt | str:
        """Return a request's prompt, or in one sentence why there is none.

        more: tokens that are to be read behind it. again: whether it is tried once more where memory ran out, once that is given back.
        """
        try:
            prompt = self.inputs.prepare(request)
            return self.length_error(len(prompt.ids) + more) or prompt
        # A picture comes from a file and goes through three libraries: whatever is wrong with it
        # is a fault of this request alone.
        except Exception as error:
            LOG.warning("%s: prompt failed", request.question_id, exc_info=True)
            reason, again = first_line(error), again and is_out_of_memory(error)
        if again:
            free_memory()
            return self.prepare(request, more, again=False)
        return f"the prompt could not be prepared: {reason}"

    def forced_tokens(self, request: Request) -> list[int] | None:
        """Return the tokens that a reply is to be, the one that ends it behind them, where the script says so."""
        if self.script is None:
            return None
        ids = self.tokenizer(self.script(request), add_special_tokens=False)["input_ids"]
        return [*ids, *self.ends[:1]]

    def close(self) -> None:
        """Give back the model's memory."""
        self.model = None
        free_memory()

    def fault_text(self, fault: Fault, prompt: PreparedPrompt) -> str:
        """Return in one sentence why a prompt failed that was alone in its call of the model."""
        if not fault.out_of_memory:
            return f"the model failed on this prompt: {fault.reason}"
        return (
            f"one request with {prompt.picture_count} pictures does not fit into the memory of"
            f" {self.model.device}: lower --image-size or --max-turns, or use a smaller model"
            " (a lower --batch-size cannot help, it was alone)"
        )


def open_model(
    model: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    max_model_len: int | None = None,
    tensor_parallel: int = 1,
    options: Mapping[str, Any] | None = None,
    thinking: str = AUTO,
    pretrained: Pretrained | None = None,
    script: Script | None = None,
) -> LoadedModel:
    """Load a bundled model, a hub name or a directory.

    dtype auto: the weights' own, on a CPU float32. device auto: the first GPU, else the CPU. max_model_len: tokens of
    a dialogue at the most, by default what the model was made for. options: those of `--engine-option`. thinking: on,
    off, or auto, as the chat template does by itself. pretrained: the model, where it is loaded already. script:
    gives the replies beforehand, for measurements. SetupError or UsageError where the model cannot be run.
    """
    options = dict(options or {})
    refuse_tensor_parallel(tensor_parallel)
    check_names(dtype, device)
    if pretrained is None:
        located = find_model(model, revision)
        check_options(options, str(located.config.get("model_type")))
        pretrained = load_pretrained(located, dtype, device, options, thinking)
        description = describe_found(located)
    else:
        description = {"model_type": pretrained.model.config.model_type}
        check_options(options, description["model_type"])
        family_of(description["model_type"]).thinking.check(pretrained.processor, thinking)
    form = family_of(str(description["model_type"])).thinking
    arguments = form.arguments(thinking, options.get("chat_template_kwargs") or {})
    leave_no_row_blind(pretrained.model)
    tokenizer = pretrained.processor.tokenizer
    ends = end_tokens(pretrained.model, tokenizer)
    marks = form.marks(tokenizer)
    loaded = LoadedModel(
        model=pretrained.model,
        inputs=PromptBuilder(
            pretrained.processor,
            str(description["model_type"]),
            options={**options, "chat_template_kwargs": arguments},
            device=str(pretrained.model.device),
        ),
        tokenizer=tokenizer,
        ends=ends,
        pad=pad_token(tokenizer, ends),
        suppressed=picture_tokens(pretrained.model.config, tokenizer),
        truncation=Truncation(
            int(options.get("top_k", pretrained.top_k)),
            float(options.get("top_p", pretrained.top_p)),
        ),
        marks=marks,
        # What is given beforehand is held to nothing.
        guides=None if script else guides_of(pretrained.model, tokenizer, ends, marks),
        script=script,
        max_len=max_model_len or position_limit(pretrained.model.config),
        description=description,
    )
    if (thoughts := loaded.thoughts()) is not None:
        LOG.info("thoughts stand %s", thoughts)
    return loaded
