"""`--engine vllm`: the options of a run, checked, described and passed to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.engine_options import engine_options
from render_agent.engines.make_engine import EngineMaker
from render_agent.errors import SetupError
from render_agent.options import RunConfig


class Vllm(EngineMaker):
    """A model in this process, run by vLLM."""

    uses_server = False

    def __call__(
        self, config: RunConfig, questions: Sequence[Question], workload: Workload
    ) -> Engine:
        from render_agent.engines.checkpoint.tool_template import check_tools
        from render_agent.engines.vllm.arguments import vllm_options
        from render_agent.engines.vllm.vllm_engine import VllmEngine

        options = vllm_options(config, engine_options(config.engine_option), workload.max_images)
        engine = VllmEngine(self.model_name(config), revision=config.revision, options=options)
        try:
            check_tools(self.model_name(config), engine.prompts.processor, workload.tools)
        except SetupError:
            engine.close()
            raise
        return engine

    def describe(self, config: RunConfig, questions: Sequence[Question] = ()) -> dict[str, Any]:
        """Return the metadata of the model. Raises SetupError if vLLM or the model is missing."""
        from render_agent.engines.checkpoint.locate import (
            describe_located,
            find_model,
            reject_adapter,
        )
        from render_agent.engines.vllm.arguments import require_vllm, vllm_version

        require_vllm()
        located = find_model(self.model_name(config), config.revision)
        reject_adapter(located, "--engine vllm")
        return {
            **describe_located(located),
            "vllm": vllm_version(),
            "dtype": config.dtype,
            "device": config.device,
            "engine_options": engine_options(config.engine_option),
        }


VLLM = Vllm()
