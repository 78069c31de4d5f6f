"""Converts run options to vLLM's engine arguments, and sets its environment variables."""

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

# Engine options that are not engine arguments of vLLM, with their types.
OWN_OPTIONS = {"min_pixels": Count, "max_pixels": Count, **SAMPLING_OPTIONS}

# Engine arguments that have a command-line option.
OWN_FLAGS = {
    "model": "--model",
    "tokenizer": "--model",
    "revision": "--revision",
    "dtype": "--dtype",
    "tensor_parallel_size": "--tensor-parallel",
    "max_model_len": "--max-model-len",
    "max_num_seqs": "--batch-size",
}

# Engine arguments that would make vLLM run code from a model, a module or a file, or open pickles.
REFUSED_ARGUMENTS = (
    "trust_remote_code", "load_format", "model_class_overrides", "worker_cls", "worker_extension_cls",
    "scheduler_cls", "logits_processors", "reasoning_parser_plugin", "io_processor_plugin",
)  # fmt: skip

GPU_SEQUENCES, CPU_SEQUENCES = 256, 16  # default number of concurrent requests

# Defaults of vLLM's environment variables; those of the user take precedence.
ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    # A forked child would inherit locks that the renderer's threads never release. In our process, vLLM's CPU build
    # would bind our threads to cores and conflict with llvmlite's modules.
    "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}
CPU_ENVIRONMENT = {"VLLM_CPU_KVCACHE_SPACE": "1"}  # GiB of main memory for the KV cache

# Makes a reply independent of what shares its batch, for `--reproducible on`.
INVARIANCE = "VLLM_BATCH_INVARIANT"
INVARIANT_MODELS = ("qwen3_vl",)  # for which vLLM tests it, including the vision tower
MIN_CAPABILITY = 80  # compute capability of NVIDIA GPUs, times ten


@dataclass(frozen=True, slots=True)
class VllmOptions:
    """Options of a vLLM engine, apart from its model."""

    dtype: str = AUTO
    device: str = AUTO
    sequences: int | None = None
    """Maximum number of concurrent requests; None for the default of the device."""
    tensor_parallel: int = 1
    max_model_len: int | None = None
    images: int = 32
    """Maximum number of images per prompt."""
    thinking: str = AUTO
    thinking_budget: int | None = None
    reproducible: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Engine options."""


def vllm_options(config: RunConfig, engine_options: Mapping[str, Any], images: int) -> VllmOptions:
    """Return the options for a run; `images` is the maximum number of images in a prompt."""
    return VllmOptions(
        dtype=config.dtype,
        device=config.device,
        sequences=config.fixed_batch_size,
        tensor_parallel=config.tensor_parallel,
        max_model_len=config.max_model_len,
        images=max(1, images),
        thinking=config.thinking,
        thinking_budget=config.thinking_budget,
        reproducible=config.reproducible == "on",
        options=engine_options,
    )


def require_vllm() -> None:
    """Raise SetupError if vLLM is not installed."""
    require("--engine vllm", "vllm", instead="use --engine transformers, which is included")


def vllm_version() -> str:
    """Return the version of vLLM, from the package vllm or vllm-cpu."""
    for package in ("vllm", "vllm-cpu"):
        try:
            return f"{version(package)}{'' if package == 'vllm' else ' (cpu)'}"
        except PackageNotFoundError:
            continue
    return "unknown"


def prepare_environment(device: str, reproducible: bool = False) -> bool:
    """Set vLLM's environment variables. Call it before importing any other part of vLLM."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if reproducible:
        os.environ[INVARIANCE] = "1"
    name, _, number = device.partition(":")
    if number:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        listed = visible.split(",") if visible else None
        if listed is not None and int(number) >= len(listed):
            raise SetupError(
                f"--device {device}: CUDA_VISIBLE_DEVICES={visible} contains fewer GPUs"
            )
        os.environ["CUDA_VISIBLE_DEVICES"] = listed[int(number)] if listed else number
    from vllm.platforms import current_platform

    on_cpu = bool(current_platform.is_cpu())
    if name != AUTO and (name == "cpu") != on_cpu:
        raise SetupError(
            f"--device {device}: the installed vLLM runs on {current_platform.device_type}. Omit --device,"
            " or install another build of vLLM."
        )
    if on_cpu:
        for name, value in CPU_ENVIRONMENT.items():
            os.environ.setdefault(name, value)
    return on_cpu


def check_invariance(model_type: str) -> None:
    """Raise SetupError if vLLM cannot make the replies of a model independent of what shares a batch."""
    from vllm import envs
    from vllm.platforms import current_platform

    is_new_gpu = current_platform.is_cuda() and current_platform.has_device_capability(
        MIN_CAPABILITY
    )
    if INVARIANCE not in envs.environment_variables:
        why = f"vLLM {vllm_version()} does not support it. Install a newer version"
    elif not (is_new_gpu or current_platform.is_rocm()):
        why = (
            f"vLLM supports it on AMD Instinct and on NVIDIA GPUs with compute capability"
            f" {MIN_CAPABILITY / 10} or higher, not on {current_platform.device_type}. Omit it"
        )
    elif model_type not in INVARIANT_MODELS:
        why = f"vLLM tests it for {', '.join(INVARIANT_MODELS)}, not for {model_type}. Omit it"
    else:
        return
    raise SetupError(f"--reproducible on: {why}, or use --engine transformers.")


def engine_arguments(
    folder: str,
    options: VllmOptions,
    on_cpu: bool,
    thinking: Thinking | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments of vLLM's `EngineArgs`."""
    check_names(options.dtype, options.device)
    arguments: dict[str, Any] = {
        "model": folder,
        "dtype": "float32" if on_cpu and options.dtype == AUTO else options.dtype,
        "max_num_seqs": options.sequences or (CPU_SEQUENCES if on_cpu else GPU_SEQUENCES),
        "tensor_parallel_size": options.tensor_parallel,
        # -1: the longest that the model and the memory allow.
        "max_model_len": options.max_model_len or -1,
        "limit_mm_per_prompt": {"image": options.images, "video": 0},
        # A reply is computed again with the next turn, as after resuming, because prefill may round differently.
        "enable_prefix_caching": not options.reproducible,
        # The same library as in --engine transformers, so that the grammar is the same.
        "structured_outputs_config": {"backend": "guidance"},
        "load_format": "safetensors",
        "trust_remote_code": False,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
    }
    if on_cpu:
        # The default block of 128 tokens on CPUs leaves up to 127 tokens of every prompt uncached.
        arguments |= {"block_size": 32, "enforce_eager": True}
    if options.thinking_budget is not None:
        arguments["reasoning_config"] = _reasoning_config(thinking or Thinking())
    arguments |= _engine_options(options.options)
    arguments["structured_outputs_config"] = _structured_outputs(
        arguments["structured_outputs_config"]
    )
    pixels = {n: options.options[n] for n in ("min_pixels", "max_pixels") if n in options.options}
    if pixels:
        arguments["mm_processor_kwargs"] = arguments.get("mm_processor_kwargs", {}) | pixels
    return arguments


def _reasoning_config(thinking: Thinking) -> Any:
    """Return vLLM's configuration of the marks of thoughts, which a thinking budget requires."""
    try:
        from vllm.config import ReasoningConfig
    except ImportError as error:
        raise SetupError(
            f"--thinking-budget is not supported by vLLM {vllm_version()}. Install a newer version, or use"
            " --engine transformers."
        ) from error
    return ReasoningConfig(reasoning_start_str=thinking.opens, reasoning_end_str=thinking.closes)


def _structured_outputs(arguments: Mapping[str, Any]) -> Any:
    """Return vLLM's configuration object; a mapping would ignore the separate argument `reasoning_parser`."""
    from vllm.config import StructuredOutputsConfig

    return StructuredOutputsConfig(**arguments)


def _engine_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine options that are engine arguments of vLLM. Raises UsageError for unknown ones."""
    if refused := [name for name in options if name in REFUSED_ARGUMENTS]:
        raise UsageError(
            f"--engine-option {refused[0]} is not allowed, because it can run code or open pickled"
            " weights. Omit it."
        )
    from vllm.engine.arg_utils import EngineArgs

    vllm_names = {entry.name for entry in fields(EngineArgs)}
    arguments = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
    for name in arguments:
        if name in OWN_FLAGS:
            raise UsageError(f"--engine-option {name}: use {OWN_FLAGS[name]} instead")
    own = {name: options[name] for name in options if name in OWN_OPTIONS or name not in vllm_names}
    check_engine_options(own, OWN_OPTIONS, "vllm", ", or an engine argument of vLLM")
    return arguments
