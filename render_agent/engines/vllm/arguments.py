"""The options of a run as vLLM's engine arguments, and what its processes read from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from render_agent.engines.checkpoint.pretrained import check_names
from render_agent.engines.engine_options import SAMPLING_OPTIONS, check_engine_options
from render_agent.engines.families.thinking import Thinking
from render_agent.errors import SetupError, UsageError
from render_agent.extras import require
from render_agent.options import AUTO, RunConfig
from render_agent.util.safe_parse import Count

OWN_OPTIONS = {"min_pixels": Count, "max_pixels": Count, **SAMPLING_OPTIONS}
"""Engine options that are no engine argument of vLLM's, and the types of their values."""

OWN_FLAGS = {
    "model": "--model",
    "tokenizer": "--model",
    "revision": "--revision",
    "dtype": "--dtype",
    "tensor_parallel_size": "--tensor-parallel",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--batch-size",
}
"""Engine arguments that have an option of their own."""

REFUSED_ARGUMENTS = (
    "trust_remote_code", "load_format", "model_class_overrides", "worker_cls", "worker_extension_cls",
    "scheduler_cls", "logits_processors", "reasoning_parser_plugin", "io_processor_plugin",
)  # fmt: skip
"""Engine arguments by which vLLM would run code of a model, a module or a file, or open pickles."""

GPU_SEQUENCES, CPU_SEQUENCES = 256, 16
"""Requests under way at once where nothing else is asked for."""

ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # A forked child would inherit the renderer's threads, and locks that nobody opens again. One that
    # shared our process would, on a CPU, bind our threads to cores and trip over llvmlite's modules.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
"""Settings of vLLM's where the user's environment has none."""

CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1"}
"""The same on a CPU: GiB of the machine's memory for the cache."""


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """What a vLLM engine is made from, apart from its model.

    sequences: requests under way at once, None for the device's own number. pictures: how many one
    prompt may hold. thinking, thinking_budget: as the run's options say. options: `--engine-option`, by name.
    """

    dtype: str = AUTO
    device: str = AUTO
    sequences: int | None = None
    tensor_parallel: int = 1
    max_model_len: int | None = None
    pictures: int = 32
    thinking: str = AUTO
    thinking_budget: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


def options_of(config: RunConfig, engine_options: Mapping[str, Any], pictures: int) -> VllmOptions:
    """Return the options of a run; pictures: how many one of its prompts can hold."""
    return VllmOptions(
        dtype=config.dtype,
        device=config.device,
        sequences=config.fixed_batch_size,
        tensor_parallel=config.tensor_parallel,
        max_model_len=config.max_model_len,
        pictures=max(1, pictures),
        thinking=config.thinking,
        thinking_budget=config.thinking_budget,
        options=engine_options,
    )


def require_vllm() -> None:
    """SetupError where vLLM is not installed."""
    require("--engine vllm", "vllm", instead="use --engine transformers, which needs nothing more")


def vllm_version() -> str:
    """Return the version of the installed vLLM, whichever package it came in."""
    for package in ("vllm", "vllm-cpu"):
        try:
            return f"{version(package)}{'' if package == 'vllm' else ' (cpu)'}"
        except PackageNotFoundError:
            continue
    return "unknown"


def prepare_environment(device: str) -> bool:
    """Set what vLLM reads from the environment, and return whether it is a build for the CPU.

    Called before any other part of vLLM is imported. SetupError where the device is none of its.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    name, _, number = device.partition(":")
    if number:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        listed = visible.split(",") if visible else None
        if listed is not None and int(number) >= len(listed):
            raise SetupError(f"--device {device}: CUDA_VISIBLE_DEVICES={visible} names fewer GPUs")
        os.environ["CUDA_VISIBLE_DEVICES"] = listed[int(number)] if listed else number
    from vllm.platforms import current_platform

    on_cpu = bool(current_platform.is_cpu())
    if name != AUTO and (name == "cpu") != on_cpu:
        raise SetupError(
            f"--device {device}: the vLLM installed here runs on {current_platform.device_type};"
            " leave --device out, or install vLLM's build for the other"
        )
    if on_cpu:
        for name, value in CPU_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    return on_cpu


def engine_arguments(
    folder: str,
    options: VllmOptions,
    on_cpu: bool,
    form: Thinking | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's `EngineArgs`.

    folder: of the model's files. form: how its family thinks. UsageError for an engine option that vLLM does not
    know, SetupError where it bounds no thoughts and is asked to.
    """
    check_names(options.dtype, options.device)
    arguments: dict[str, Any] = {
        "model": folder,
        "dtype": "float32" if on_cpu and options.dtype == AUTO else options.dtype,
        "max_num_seqs": options.sequences or (CPU_SEQUENCES if on_cpu else GPU_SEQUENCES),
        "tensor_parallel_size": options.tensor_parallel,
        # -1: as long as the model allows and the memory holds.
        "max_model_len": options.max_model_len or -1,
        "limit_mm_per_prompt": {"image": options.pictures, "video": 0},
        "enable_prefix_caching": True,
        # The library of --engine transformers, so that both hold replies to the same grammar.
        "structured_outputs_config": {"backend": "guidance"},
        "load_format": "safetensors",
        "trust_remote_code": False,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if on_cpu:
        # The CPU's own block of 128 tokens leaves up to 127 of every prompt uncached.
        arguments |= {"block_size": 32, "enforce_eager": True}
    if options.thinking_budget is not None:
        arguments["reasoning_config"] = _reasoning_config(form or Thinking())
    arguments |= _engine_options(options.options)
    arguments["structured_outputs_config"] = _structured_outputs(
        arguments["structured_outputs_config"]
    )
    pixels = {n: options.options[n] for n in ("min_pixels", "max_pixels") if n in options.options}
    if pixels:
        arguments["mm_processor_kwargs"] = arguments.get("mm_processor_kwargs", {}) | pixels
    return arguments


def _reasoning_config(form: Thinking) -> Any:
    """Return vLLM's own object of the marks of thoughts, without which it bounds none."""
    try:
        from vllm.config import ReasoningConfig
    except ImportError as error:
        raise SetupError(
            f"--thinking-budget: vLLM {vllm_version()} bounds no thoughts: install a newer one, or use"
            " --engine transformers"
        ) from error
    return ReasoningConfig(reasoning_start_str=form.opens, reasoning_end_str=form.closes)


def _structured_outputs(given: Mapping[str, Any]) -> Any:
    """Return vLLM's own object, which alone takes a `reasoning_parser` from another argument."""
    from vllm.config import StructuredOutputsConfig

    return StructuredOutputsConfig(**given)


def _engine_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine options that are vLLM's own. UsageError for others."""
    if refused := [name for name in options if name in REFUSED_ARGUMENTS]:
        raise UsageError(
            f"--engine-option {refused[0]} is not taken: it lets a model bring code or pickled weights;"
            " leave it out"
        )
    from vllm.engine.arg_utils import EngineArgs

    known = {entry.name for entry in fields(EngineArgs)}
    arguments = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    for name in arguments:
        if name in OWN_FLAGS:
            raise UsageError(f"--engine-option {name}: use {OWN_FLAGS[name]} instead")
    own = {name: options[name] for name in options if name in OWN_OPTIONS or name not in known}
    check_engine_options(own, OWN_OPTIONS, "vllm", ", or a name of vLLM's engine arguments")
    return arguments
