"""Builds the engines to compare from a model that is loaded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine
from render_agent.engines.engine_options import engine_options
from render_agent.engines.scripted import BATCH_SIZE, ScriptedEngine
from render_agent.options import AUTO, RunConfig
from render_agent.runs.build import build, make_engine, workload_of
from render_agent_lab.bench.schedules.script import ScriptedWalk
from render_agent_lab.bench.schedules.variants import Variant

if TYPE_CHECKING:
    from render_agent.engines.checkpoint.pretrained import Pretrained


class EngineFactory:
    """Builds the engine of each variant."""

    def __init__(
        self,
        config: RunConfig,
        pretrained: Pretrained | None,
        script: ScriptedWalk | None,  # replies to force on it; None lets the model write its own
        reproducible: bool = False,
    ) -> None:
        self.config = config
        self.pretrained = pretrained
        self.script = script
        self.reproducible = reproducible

    def make(self, variant: Variant, config: RunConfig, questions: Sequence[Question]) -> Engine:
        """Build the engine of a variant. Raises SetupError on failure."""
        if variant.engine == "scripted" and self.script is not None:
            size = BATCH_SIZE if variant.batch_size == AUTO else int(variant.batch_size)
            return ScriptedEngine(self.script, size)
        if variant.engine != "transformers" or self.pretrained is None:
            return make_engine(config, questions)
        from render_agent.engines.transformers.factory import build_engine
        from render_agent.engines.transformers.make_transformers import estimate_dialogue_tokens
        from render_agent.engines.transformers.model.load import open_model

        options = {**engine_options(config.engine_option), "reuse": variant.reuse}
        # closing the engine must not unload the model, which stays in `pretrained`
        model = open_model(
            build(config).model_name,
            max_model_len=config.max_model_len,
            options=options,
            pretrained=self.pretrained,
            script=None if self.script is None else self.script.reply,
        )
        tokens = estimate_dialogue_tokens(model, config, options, workload_of(build(config)))
        rows = None if variant.batch_size == AUTO else int(variant.batch_size)
        return build_engine(model, rows, options, tokens, reproducible=self.reproducible)


def load_benchmark_model(config: RunConfig, random_weights: str | None) -> Pretrained:
    """Load the model of the transformers engine, as configured or with random weights.

    Raises SetupError if it is missing.
    """
    options = engine_options(config.engine_option)
    if random_weights is not None:
        from render_agent_lab.random_models.random_model import random_model

        attention = options.get("attn_implementation")
        return random_model(random_weights, config.device, config.dtype, attention, config.seed)
    from render_agent.engines.checkpoint.locate import find_model
    from render_agent.engines.checkpoint.pretrained import load_pretrained

    files = find_model(build(config).model_name, config.revision)
    return load_pretrained(files, config.dtype, config.device, options)


def make_tokenize(pretrained: Pretrained | None) -> Callable[[str], Sequence[Any]]:
    """Return a function that splits text into the model's tokens, or into words if there is no model."""
    if pretrained is None:
        return str.split
    tokenizer = pretrained.processor.tokenizer

    def tokens(text: str) -> list[int]:
        ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
        return ids

    return tokens
