"""vLLM itself: prompts in, finished outputs out, every fault one of ours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf
from typing import Any

from render_agent.engines.checkpoint.locate import FoundModel
from render_agent.engines.families.model_families import family_of
from render_agent.engines.vllm.arguments import VllmOptions, engine_arguments
from render_agent.engines.vllm.requests import TokenPrompt
from render_agent.engines.vllm.watcher import start_watcher
from render_agent.errors import EngineError, SetupError
from render_agent.util.reasons import first_line

LIVENESS_POLL_SECONDS = 1.0
"""Between two looks at whether the model's process lives."""


class VllmCore:
    """One loaded model, as a rule in a process of its own. `steps` counts those that gave something."""

    def __init__(self, located: FoundModel, options: VllmOptions, on_cpu: bool) -> None:
        """Load a model whose files are on this machine. SetupError where vLLM cannot run it."""
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        form = family_of(str(located.config.get("model_type"))).thinking
        arguments = engine_arguments(str(located.folder), options, on_cpu, form)
        # Left alone, vLLM's processes outlive a killed one for minutes, with their memory.
        self._watcher = start_watcher()
        try:
            self.engine: Any = LLMEngine.from_engine_args(EngineArgs(**arguments))
        # Whatever the model's code, the driver or a started process raises means the same here.
        except Exception as error:
            self._watcher.kill()
            raise SetupError(
                f"vLLM cannot run {located.name} ({_reason(error)}): lower --max-model-len or"
                " --engine-option gpu_memory_utilization=0.9, choose another --dtype, or use"
                " --engine transformers"
            ) from error
        self.steps = 0
        config = self.engine.vllm_config
        self.sequences: int = config.scheduler_config.max_num_seqs
        self.prefix_caching = bool(config.cache_config.enable_prefix_caching)
        self.max_model_len: int = config.model_config.max_model_len
        self.dtype = str(config.model_config.dtype).removeprefix("torch.")
        self.device: str = config.device_config.device_type
        self.hf_config: Any = config.model_config.hf_config
        self.published: Mapping[str, Any] = config.model_config.get_diff_sampling_param()

    def add(self, name: str, prompt: TokenPrompt, params: Any) -> None:
        """Begin a prompt. ValueError where it is longer than `max_model_len` or vLLM cannot take it.

        EngineError where vLLM is gone.
        """
        from vllm.v1.engine.exceptions import EngineDeadError

        inputs: dict[str, Any] = {"prompt_token_ids": list(prompt.ids)}
        if prompt.pictures:
            inputs["multi_modal_data"] = {"image": list(prompt.pictures)}
            inputs["multi_modal_uuids"] = {"image": list(prompt.names)}
        rendered = self.engine.renderer.render_cmpl([inputs])[0]
        try:
            self.engine.add_request(name, rendered, params)
        except EngineDeadError as error:
            raise _engine_error(error) from error

    def step(self, timeout: float | None = None) -> list[Any]:
        """Go one step and return the outputs that it finished; none where it takes longer than seconds.

        EngineError where vLLM is gone.
        """
        # A step raises that the model's process died or, where there is none, what the model raises.
        try:
            if not self._has_output(timeout):
                return []
            self.steps += 1
            return [output for output in self.engine.step() if output.finished]
        except Exception as error:
            raise _engine_error(error) from error

    def _has_output(self, timeout: float | None) -> bool:
        """Wait until the model's process has an output; whether it has one in time.

        vLLM itself waits without end for a process that dies meanwhile. Raises where it has.
        """
        client = self.engine.engine_core
        queue = getattr(client, "outputs_queue", None)
        if queue is None:  # the model runs in this process
            return True
        until = inf if timeout is None else time.perf_counter() + timeout
        while True:
            left = max(0.0, min(LIVENESS_POLL_SECONDS, until - time.perf_counter()))
            with queue.not_empty:
                if queue.not_empty.wait_for(lambda: queue.queue, left):
                    return True
            client.ensure_alive()
            if time.perf_counter() >= until:
                return False

    def forget(self) -> None:
        """Drop what was kept of earlier prompts and pictures; nothing may be under way."""
        self.engine.reset_prefix_cache()
        self.engine.reset_mm_cache()
        self.engine.reset_encoder_cache()

    def close(self) -> None:
        """Give back memory and processes."""
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        engine, self.engine = self.engine, None
        if engine is not None:
            engine.engine_core.shutdown()
            del engine
            cleanup_dist_env_and_memory()
            self._watcher.kill()


def _engine_error(error: Exception) -> EngineError:
    return EngineError(
        f"vLLM answers no more ({first_line(error)}): restart, and continue the run with"
        " --continue recent"
    )


def _reason(error: Exception) -> str:
    """Return why vLLM refused; of a ValidationError what was found, not how much."""
    errors = getattr(error, "errors", None)
    details = errors() if callable(errors) else []
    return str(details[0]["msg"]).splitlines()[0].rstrip(".") if details else first_line(error)
