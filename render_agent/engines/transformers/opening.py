"""A model's name and the options → the model in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from render_agent.engines.loading import describe_found, find_model
from render_agent.engines.special_tokens import end_tokens, pad_token, picture_tokens
from render_agent.engines.transformers.constrained_decoding import guides_of
from render_agent.engines.transformers.loaded_model import LoadedModel
from render_agent.engines.transformers.options import (
    check_options,
    position_limit,
    refuse_tensor_parallel,
)
from render_agent.engines.transformers.pretrained import Pretrained, check_names, load_pretrained
from render_agent.engines.transformers.sampling import Truncation
from render_agent.engines.transformers.tokenization import DialogueTensors

if TYPE_CHECKING:
    from render_agent.engines.transformers.teacher_forcing import Script


def open_model(
    model: str,
    *,
    revision: str | None = None,
    dtype: str = "auto",
    device: str = "auto",
    max_model_len: int | None = None,
    tensor_parallel: int = 1,
    options: Mapping[str, Any] | None = None,
    pretrained: Pretrained | None = None,
    script: Script | None = None,
) -> LoadedModel:
    """Load a bundled model, a hub name or a directory.

    dtype auto: the weights' own, on a CPU float32. device auto: the first GPU, else the CPU.
    max_model_len: tokens of a dialogue at the most, by default what the model was made for. options:
    those of `--engine-option`. pretrained: the model, where it is loaded already. script: gives the
    replies beforehand, for measurements. SetupError or UsageError where the model cannot be run.
    """
    options = dict(options or {})
    refuse_tensor_parallel(tensor_parallel)
    check_names(dtype, device)
    if pretrained is None:
        found = find_model(model, revision)
        check_options(options, str(found.config.get("model_type")))
        pretrained = load_pretrained(found, dtype, device, options)
        description = describe_found(found)
    else:
        description = {"model_type": pretrained.model.config.model_type}
        check_options(options, description["model_type"])
    tokenizer = pretrained.processor.tokenizer
    ends = end_tokens(pretrained.model, tokenizer)
    return LoadedModel(
        model=pretrained.model,
        inputs=DialogueTensors(
            pretrained.processor,
            str(description["model_type"]),
            options=options,
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
        # What is given beforehand is held to nothing.
        guides=None if script else guides_of(pretrained.model, tokenizer, ends),
        script=script,
        max_len=max_model_len or position_limit(pretrained.model.config),
        description=description,
    )
