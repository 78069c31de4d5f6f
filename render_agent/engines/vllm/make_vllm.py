"""`--engine vllm`: the options of a run, checked, described and passed to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from render_agent.dialogue.question import Question
from render_agent.engines.engine import Engine, Workload
from render_agent.engines.engine_options import engine_options
from render_agent.engines.make_engine import EngineMaker
from render_agent.engines.transformers.make_transformers import nvidia_driver
from render_agent.errors import SetupError
from render_agent.options import AUTO, RunConfig

# What makes a run with `--reproducible on` reproducible.
GUARANTEE = "VLLM_BATCH_INVARIANT=1 without prefix caching, as tested by vLLM for this family"


class Vllm(EngineMaker):
    """A model in this process, run by vLLM."""

    uses_server = False
    can_reproduce = True

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
        machine = self.machine(config)
        return {
            **describe_located(located),
            "vllm": vllm_version(),
            "dtype": config.dtype,
            "device": config.device,
            "engine_options": engine_options(config.engine_option),
            **({} if machine is None else {"reproducible": {**machine, "check": GUARANTEE}}),
        }

    def check_at_hand(self, config: RunConfig) -> None:
        """Raise SetupError if replies are to be reproducible, but cannot be with this model or on this device."""
        from render_agent.engines.checkpoint.locate import find_model
        from render_agent.engines.vllm.arguments import (
            check_invariance,
            prepare_environment,
            require_vllm,
        )

        if config.reproducible == "on":
            require_vllm()
            prepare_environment(AUTO)  # the engine selects the GPU later
            located = find_model(self.model_name(config), config.revision)
            check_invariance(str(located.config.get("model_type")))

    def machine(self, config: RunConfig) -> dict[str, Any] | None:
        if config.reproducible != "on":
            return None
        from vllm.platforms import current_platform

        from render_agent.engines.vllm.arguments import vllm_version

        device = {"device": current_platform.get_device_name(), "driver": nvidia_driver()}
        return {**device, "torch": version("torch"), "vllm": vllm_version()}


VLLM = Vllm()
