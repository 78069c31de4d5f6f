"""Wraps vLLM: prompts in, finished outputs out, and errors converted to ours."""

from __future__ import annotations

import time
from collections.abc import Mapping
from math import inf
from typing import Any

from render_agent.engines.checkpoint.locate import LocatedModel
from render_agent.engines.families.model_families import family_of
from render_agent.engines.vllm.arguments import VllmOptions, engine_arguments
from render_agent.engines.vllm.requests import TokenPrompt
from render_agent.engines.vllm.watcher import start_watcher
from render_agent.errors import EngineError, SetupError
from render_agent.util.reasons import first_line

LIVENESS_POLL_SECONDS = 1.0  # interval between checks that the model's process is alive


class VllmCore:
    """One loaded model, usually in its own process. `steps` counts the steps that produced output."""

    def __init__(self, located: LocatedModel, options: VllmOptions, on_cpu: bool) -> None:
        from vllm.engine.arg_utils import EngineArgs
        from vllm.v1.engine.llm_engine import LLMEngine

        thinking = family_of(str(located.config.get("model_type"))).thinking
        arguments = engine_arguments(str(located.folder), options, on_cpu, thinking)
        # Without it, vLLM's processes would outlive a killed parent for minutes and keep their memory.
        self._watcher = start_watcher()
        try:
            self.engine: Any = LLMEngine.from_engine_args(EngineArgs(**arguments))
        # The model's code, the driver or a subprocess can raise anything.
        except Exception as error:
            self._watcher.kill()
            raise SetupError(
                f"vLLM cannot run {located.name} ({_reason(error)}). Lower --max-model-len or"
                " --engine-option gpu_memory_utilization=0.9, choose another --dtype, or use"
                " --engine transformers."
            ) from error
        self.steps = 0
        config = self.engine.vllm_config
        self.sequences: int = config.scheduler_config.max_num_seqs
        self.hf_config: Any = config.model_config.hf_config
        self.published: Mapping[str, Any] = config.model_config.get_diff_sampling_param()

    def add(self, name: str, prompt: TokenPrompt, params: Any) -> None:
        """Submit a prompt. Raises ValueError."""
        from vllm.v1.engine.exceptions import EngineDeadError

        inputs: dict[str, Any] = {"prompt_token_ids": list(prompt.ids)}
        if prompt.images:
            inputs["multi_modal_data"] = {"image": list(prompt.images)}
            inputs["multi_modal_uuids"] = {"image": list(prompt.hashes)}
        rendered = self.engine.renderer.render_cmpl([inputs])[0]
        try:
            self.engine.add_request(name, rendered, params)
        except EngineDeadError as error:
            raise _engine_error(error) from error

    def step(self, timeout: float | None = None) -> list[Any]:
        """Run one step and return its finished outputs; none if it takes longer than `timeout` seconds."""
        # Without a separate process, a step can raise any error of the model.
        try:
            if not self._has_output(timeout):
                return []
            self.steps += 1
            return [output for output in self.engine.step() if output.finished]
        except Exception as error:
            raise _engine_error(error) from error

    def _has_output(self, timeout: float | None) -> bool:
        """Wait for an output of the model's process; return False on timeout, raise if the process has died.

        vLLM's own wait would never end if the process dies meanwhile.
        """
        client = self.engine.engine_core
        queue = getattr(client, "outputs_queue", None)
        if queue is None:  # the model runs in this process
            return True
        deadline = inf if timeout is None else time.perf_counter() + timeout
        while True:
            wait = max(0.0, min(LIVENESS_POLL_SECONDS, deadline - time.perf_counter()))
            with queue.not_empty:
                if queue.not_empty.wait_for(lambda: queue.queue, wait):
                    return True
            client.ensure_alive()
            if time.perf_counter() >= deadline:
                return False

    def clear_caches(self) -> None:
        """Drop cached prompts and images. No request may be in flight."""
        self.engine.reset_prefix_cache()
        self.engine.reset_mm_cache()
        self.engine.reset_encoder_cache()

    def close(self) -> None:
        from vllm.distributed.parallel_state import cleanup_dist_env_and_memory

        engine, self.engine = self.engine, None
        if engine is not None:
            engine.engine_core.shutdown()
            del engine
            cleanup_dist_env_and_memory()
            self._watcher.kill()


def _engine_error(error: Exception) -> EngineError:
    return EngineError(
        f"vLLM has stopped ({first_line(error)}). Restart it, then resume the run with --continue recent"
    )


def _reason(error: Exception) -> str:
    """Return the first line of an error; for a ValidationError the message of its first detail."""
    errors = getattr(error, "errors", None)
    details = errors() if callable(errors) else []
    return str(details[0]["msg"]).splitlines()[0].rstrip(".") if details else first_line(error)
